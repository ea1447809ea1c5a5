#!/usr/bin/env bash
# Moves shared variables of kernel templates to where those of other kernels are (see __shared__ in
# tests/standin/cuda_runtime.h): each static variable has a section of its own; those of functions
# that have a mark are moved.
# usage: shared.sh OBJECT
set -eu
sections=$(readelf -SW "$1" | grep -oE ' \.bss\._ZZ[^ ]*' | sort -u || true)
move=()
for mark in $(sed -nE 's/E[0-9]+standin_mark_[0-9]+$//p' <<<"$sections" | sort -u); do
    for s in $sections; do
        case $s in "${mark}"E*) move+=(--rename-section "$s=standin_shared") ;; esac
    done
done
[ ${#move[@]} = 0 ] || objcopy "${move[@]}" "$1"
