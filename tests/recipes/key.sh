# Seconds until the storage that all nodes share gives or takes its first byte.
row='add a key to a file'
own=core/run/checkpoint.c # what this key is for
programs=(unit/check_keys unit/check_moves unit/check_bad)
steps() {
    insert after core/cost/cluster.h 'double storage_read_bytes_per_s, storage_write_bytes_per_s;' <<'X' &&
    double storage_latency_s;
X
        insert before core/io/read/fields/cluster_fields.inc '    LUO_DOC_FLOAT("read_gbytes_per_s", REQ, storage_yaml' <<'X' &&
    LUO_DOC_FLOAT_OR("latency_us", storage_yaml, latency, "0", LATENCY, "until the first byte"),
X
        sed -i 's/^    double read, write;/    double read, write, latency;/' core/io/read/read_cluster.c &&
        insert after core/io/read/read_cluster.c 'cluster->storage_write_bytes_per_s = yaml->storage.write' <<'X' &&
    cluster->storage_latency_s = yaml->storage.latency * 1e-6;
X
        insert after "$own" '    double t = sc->checkpoint.target == LUO_TARGET_STORAGE' <<'X' &&
    if (t > 0) t += cluster->storage_latency_s;
X
        sed -i 's/^ *? (double)used->state_bytes \/ cluster->storage_read_bytes_per_s$/& +\n                         cluster->storage_latency_s/' "$own" &&
        insert after tests/keys_dump.h 'DUMP_D(storage_write_bytes_per_s);' <<'X' &&
    DUMP_D(storage_latency_s);
X
        insert after tests/keys_rows.h '{cluster, "storage.write_gbytes_per_s"' <<'X' &&
    {cluster, "storage.latency_us", "21}", "21, latency_us: 7}", NULL},
X
        insert before tests/moves_rows.h '    {"standby", PLANNED, STEP_S' <<'X' &&
    {"storage.latency_us", TWO, WRITING, MORE, "write_gbytes_per_s: 5}",
     "write_gbytes_per_s: 5, latency_us: 100000}", NULL},
    {"storage.latency_us", TWO, READING, MORE, "write_gbytes_per_s: 5}",
     "write_gbytes_per_s: 5, latency_us: 100000}", NULL},
X
        sed -e 's/write_gbytes_per_s: 20}/write_gbytes_per_s: 20, latency_us: -1}/' -e 's/\[0-99\]/[]/' \
            tests/golden/bad/cluster/standby-range.yaml >tests/golden/bad/cluster/storage-latency.yaml &&
        insert after docs/formats.md '| `write_gbytes_per_s` | number' <<'X' &&
| `latency_us` | number, 0 or 1e-06 to 1000000000 | 10^-6 s | 0 | until the first byte |
X
        sed -i 's/^storage: {read_gbytes_per_s: 40, write_gbytes_per_s: 20}/storage: {read_gbytes_per_s: 40, write_gbytes_per_s: 20, latency_us: 500}/' docs/formats.md
}
show() { # read, not ignored, refused below 0
    "$B/tests/unit/check_keys" && "$B/tests/unit/check_docs" && "$B/tests/unit/check_moves" >"$tmp/moves" || { tail "$tmp/moves"; return 1; }
    BLESS=1 "$B/tests/unit/check_bad" && grep 'latency_us' tests/golden/bad/cluster/storage-latency.yaml.want &&
        [ "$(grep -c '^storage.latency_us .*+' "$tmp/moves")" = 2 ]
}
