# tests/settings.sh: random settings of scripts that compare planners; they source it, with a $seed.
state=$seed
pick() { # N: a number below N, in $r; the same everywhere for a seed
    state=$(((state * 1103515245 + 12345) % 2147483648))
    r=$(((state / 65536) % $1))
}
choose() { # WORDS..: one of them, in $w
    pick $#
    shift "$r"
    w=$1
}
# An entry of node_groups: nodes of eight GPUs with NVLink.
node_group() { # NAME NODES PROFILE SCALE_UP NICS NIC_GB
    printf '  - name: %s\n    nodes: %s\n    devices_per_node: 8\n    profile: %s\n' "$1" "$2" "$3"
    printf '    scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: %s, latency_us: 1.0}\n' "$4"
    printf '    pcie: {bandwidth_gbytes_per_s: 25, latency_us: 1.5, devices_per_switch: 2, sockets: 2, socket_gbytes_per_s: 60}\n'
    printf '    nics: {count: %s, bandwidth_gbytes_per_s: %s, latency_us: 2.0, attach: slot}\n' "$5" "$6"
    printf '    host: {cores: 96, memory_gib: 1024, disk_read_gbytes_per_s: 6, disk_write_gbytes_per_s: 3}\n'
}
