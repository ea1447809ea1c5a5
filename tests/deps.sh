#!/usr/bin/env bash
# Installs the Debian packages that are missing: as root, through sudo, or by saying how.
# usage: tests/deps.sh build|lint|torch|bundle|page ...
set -u
want=()
for set in "$@"; do
    case $set in
    build) want+=(gcc g++ make pkg-config libsimgrid-dev libyaml-dev libjansson-dev
                  libcsv-dev libexpat1-dev check libsubunit-dev zlib1g-dev gnuplot-nox fonts-dejavu-core
                  libopenmpi-dev openmpi-bin libopenblas-dev libglpk-dev) ;;
    bundle) want+=(patchelf binutils xz-utils) ;;
    torch) want+=(python3-torch) ;;
    page) want+=(chromium) ;;
    lint) want+=(clang cppcheck libclang-rt-14-dev clang-format) ;;
    *) echo "tests/deps.sh: unknown set $set" >&2; exit 2 ;;
    esac
done
missing=()
for p in "${want[@]}"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
done
[ ${#missing[@]} = 0 ] && exit 0
echo "missing packages: ${missing[*]}"
run=()
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
        echo "install them with: sudo apt-get install -y ${missing[*]}" >&2
        exit 1
    fi
    run=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# A while, in which another apt-get is waited for. DPkg::Lock::Timeout is no help with the locks of
# lists and archives.
most_s=600
call_apt() {
    local until=$((SECONDS + most_s))
    while ! "${run[@]}" env LC_ALL=C apt-get -qq "$@" >"$log" 2>&1; do
        grep -qE '^E: (Could not get lock|Unable to acquire the dpkg frontend lock .*another)' "$log" &&
            [ $SECONDS -lt $until ] || return 1
        [ -n "${told:-}" ] || echo "another apt-get runs; waiting for it up to $most_s s"
        told=1
        sleep 1
    done
}
call_apt install -y "${missing[@]}" || { call_apt update; call_apt install -y "${missing[@]}"; } ||
    { cat "$log" >&2; exit 1; }
rm -f "$log"
