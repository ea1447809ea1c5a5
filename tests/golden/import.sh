# Files of others into tables of lengths: what is written, left out, told and refused.
R=$TOP/scenarios/examples/requests.csv
i() { "$LUOSHU" import "$@"; local rc=$?; [ $rc = 0 ] || echo "exit $rc: ${*//$TOP\//}"; }
# 18:17:03.98 and 52 ms later: two published rows (Azure), 4808 + 10 and 3180 + 8 tokens
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n' >azure.csv
i lengths-azure azure.csv; cat lengths.csv; "$LUOSHU" check lengths.csv
i lengths-azure "$R" --out classes.csv --histogram log2 --length context; cat classes.csv; "$LUOSHU" check classes.csv
printf '{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}\n{"timestamp": 30535, "input_length": 6472, "output_length": 26, "hash_ids": []}\n' >mooncake.jsonl
i lengths-mooncake mooncake.jsonl --out mooncake.csv --json; cat mooncake.csv
# a tree: by the bytes of names, folders where their names stand; no links, no binary, nothing empty
mkdir -p tree/b tree/B; printf 'one two\n' >tree/a; printf 'three' >tree/b/x; printf 'f o u r' >tree/B/x
: >tree/none; printf ' \n' >tree/blank; printf 'a\0b' >tree/binary; ln -s a tree/link; ln -s . tree/round; mkfifo tree/pipe
i lengths-text tree --out bytes.csv --quiet; cat bytes.csv
i lengths-text tree --out words.csv --unit words; cat words.csv
i lengths-text tree/link --out link.csv --quiet --histogram 1,8,16; cat link.csv
# training's files: two documents in a text, three and an empty one in a list of tokens
printf 'aa\nbb\n\ncc\n' >train.txt; printf 'ababab\377\377\377\377xyxy\377\377z\1' >train.u16
i lengths-tokens train.txt --out train.csv; cat train.csv
i lengths-tokens train.u16 --out train.csv --force; cat train.csv
# wrong use
i; i lengths-tokens; i lengths-azur "$R"; i lengths-text "$R" --length total; i lengths-azure "$R" --unit words --out x.csv
i lengths-azure "$R"; i lengths-azure "$R" --out x.csv --length all; i lengths-azure "$R" --out x.csv --histogram 9,3
i lengths-text tree --out tree/lengths.csv; i lengths-text tree --out tree/a --force; i lengths-text tree/a --out tree/a --force
# wrong files
i lengths-azure mooncake.jsonl --out x.csv; i lengths-mooncake azure.csv --out x.csv; i lengths-azure nothing.csv --out x.csv
i lengths-azure tree --out x.csv; i lengths-text tree/binary --out x.csv; i lengths-text azure.csv --histogram 1,9 --out x.csv
i lengths-tokens mooncake.jsonl --out x.csv; i lengths-text tree --out none/x.csv
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n' >bad.csv; for k in $(seq 25); do echo "yesterday,1,-1" >>bad.csv; done
i lengths-azure bad.csv --out x.csv
ls
