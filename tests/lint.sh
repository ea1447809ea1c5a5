#!/usr/bin/env bash
# cppcheck at zero findings, both compilers' warnings as errors, and the house rules.
set -u
bad=0
fail() { echo "lint: $*"; bad=1; }
sources=$(git ls-files 'core/*.c' 'sim/*.c' 'cli/*.c' 'exec/*.c')
system=$(pkg-config --cflags-only-I ompi-c openblas | sed 's/-I/-isystem /g')
# exec/cuda against the headers of CUDA, or of the stand-in where there are none. NVCC warns itself.
system="$system ${CUDA_CFLAGS:--isystem tests/standin}"
for cc in gcc clang; do
    echo "$sources" | xargs -P 2 -n 8 $cc -std=c11 -D_GNU_SOURCE -O1 -fsyntax-only -Wall -Wextra \
        -Wshadow -Wconversion -Werror -fopenmp-simd -DLUO_GIT='""' -DLUO_FLAGS='""' -DLUO_CUDA='""' -DLUO_NO_CUDA='""' -DSIM_STAMP='""' -I. $system ||
        fail "$cc has warnings"
done
# Off: unusedStructMember (fields are read by other files), the two style of libraries' macros.
echo "$sources" | xargs cppcheck -q -j 2 --std=c11 --enable=warning,portability,performance \
    --inline-suppr --suppress=missingIncludeSystem --error-exitcode=1 -I. -D__GNUC__ ||
    fail "cppcheck has findings"
hits=$(grep -nE '\b(printf|fprintf|puts|abort|exit)\(' $(git ls-files 'core/*.c' 'sim/*.c' 'exec/*.c' 'exec/*.inc' 'exec/*.cu' 'exec/*.cuh' ':!exec/main*.c') |
       grep -vE 'snprintf|_exit|luo_|[.]abort|/\*|^\S+:\s*\*')
[ -z "$hits" ] || fail "library code prints or exits:"$'\n'"$hits"
hits=$(git ls-files '*.c' '*.h' '*.inc' '*.cpp' '*.cu' '*.cuh' | xargs awk 'length($0) > 100 {print FILENAME ":" FNR ": " length($0) " columns"}')
[ -z "$hits" ] || fail "lines over 100 columns:"$'\n'"$hits"
hits=$(git grep -nE '^([^"]|"[^"]*")*//' -- '*.cu' '*.cuh' | grep -v '} // namespace$')
[ -z "$hits" ] || fail "comments are /* */:"$'\n'"$hits"
hits=$(awk -f tests/names.awk $(git ls-files {core,sim,exec,cli}/'*'.{h,cuh} | grep -vE '_internal\.(h|cuh)$'))
[ -z "$hits" ] || fail "functions whose name does not say which header to open (tests/names.awk):"$'\n'"$hits"
hits=$(git ls-files | awk -f tests/paths.awk - $(git ls-files '*.c' '*.h' '*.inc' '*.cu' '*.cuh' '*.cpp' '*.md' '*.sh' '*.mk' '*.awk' '*.gp' 'scenarios/*.yaml' Makefile ':!tests/golden/*' ':!tests/recipes/*'))
[ -z "$hits" ] || fail "files that comments and pages name and nobody has (tests/paths.awk):"$'\n'"$hits"
hits=$(git grep -nE '\b(TODO|FIXME|XXX)\b' -- '*.c' '*.h' '*.cpp' '*.cu' '*.cuh')
[ -z "$hits" ] || fail "open ends:"$'\n'"$hits"
[ $bad = 0 ] && echo "lint: clean"
exit $bad
