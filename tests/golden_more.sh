#!/usr/bin/env bash
# The golden tests that take seconds each (tests/golden.sh).
GOLDEN=check-more exec tests/golden.sh
