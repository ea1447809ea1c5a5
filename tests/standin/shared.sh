#!/usr/bin/env bash
# Moves shared variables of kernel templates to where those of other kernels are (see __shared__ in
# tests/standin/cuda_runtime.h): static variables of functions, each in a section of its own.
# usage: shared.sh OBJECT
set -eu
move=$(readelf -SW "$1" | grep -oE ' \.bss\._ZZ[^ ]*' | sort -u | sed 's/.*/--rename-section &=standin_shared/' || true)
# shellcheck disable=SC2086
[ -z "$move" ] || objcopy $move "$1"
