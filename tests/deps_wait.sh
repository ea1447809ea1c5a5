#!/usr/bin/env bash
# tests/deps.sh beside another apt-get: waits for each of the locks, and for no other fault. Its tools are stand-ins here.
set -u
n=0; bad=0
fail() { echo "FAIL $*"; bad=$((bad + 1)); }
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
printf 'echo 0\n' >"$tmp/id"
printf 'exit 1\n' >"$tmp/dpkg-query"
printf 'echo pause >>%s/calls\n' "$tmp" >"$tmp/sleep"
cat >"$tmp/apt-get" <<end
for word in "\$@"; do case \$word in install | update) echo \$word >>$tmp/calls ;; esac; done
says=\$(sed -n 1p $tmp/answers); sed -i 1d $tmp/answers
[ -z "\$says" ] || { echo "E: \$says" >&2; exit 100; }
end
for tool in id dpkg-query sleep apt-get; do sed -i '1i #!/bin/sh' "$tmp/$tool"; chmod +x "$tmp/$tool"; done
# wait_for NAME EXIT CALLS ANSWER..: what apt-get answers one after another; empty: it is done
wait_for() {
    local name=$1 rc=$2 calls=$3; shift 3
    printf '%s\n' "$@" >"$tmp/answers"; : >"$tmp/calls"
    PATH=$tmp:$PATH ./tests/deps.sh bundle >"$tmp/out" 2>&1
    local got=$?
    n=$((n + 1))
    [ $got = "$rc" ] && [ "$(xargs <"$tmp/calls")" = "$calls" ] ||
        fail "$name: exit $got, $(xargs <"$tmp/calls"): $(cat "$tmp/out")"
}
lists='Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)'
archives='Could not get lock /var/cache/apt/archives/lock. It is held by process 1 (apt-get)'
dpkg='Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?'
wait_for free 0 'install' ''
wait_for install 0 'install pause install pause install' "$dpkg" "$archives" ''
wait_for update 0 'install update pause update pause update install' 'Unable to locate package xz-utils' "$lists" "$lists" '' ''
wait_for other 1 'install update install' 'Unable to locate package xz-utils' '' 'Unable to locate package xz-utils'
grep -q '^E: Unable to locate package xz-utils' "$tmp/out" || fail "other: it does not say why: $(cat "$tmp/out")"
echo "$((100 * (n - bad) / n))%: Checks: $n, Failures: $bad, Errors: 0"
[ $bad = 0 ]
