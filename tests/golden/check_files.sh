# One file of each kind; several wrong ones: each told, the largest exit code wins.
S=$TOP/scenarios
cat >config.json <<'END'
{"model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4,
 "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 256, "rms_norm_eps": 1e-6,
 "max_position_embeddings": 128, "tie_word_embeddings": false, "torch_dtype": "float32"}
END
"$LUOSHU" check "$S/clusters/tiny2.yaml" "$S/profiles/h20.yaml" "$S/profiles/stacks/megatron.yaml" \
    "$S/models/tiny-llama.yaml" config.json "$S/demo/demo.yaml" "$HERE/plans/case-13.json" \
    "$S/profiles/tables/h20.csv" "$TOP/traces/causes.csv" "$TOP/traces/spot.csv"
echo "exit $?"
printf 'schema: luoshu.model/1\nname: m\nfamily: gpt\nlayrs: 2\nhidden: 8\n' >layrs.yaml
"$LUOSHU" check layrs.yaml nowhere.json "$S/models/tiny-gpt.yaml"; echo "exit $?"
"$LUOSHU" check layrs.yaml --json; echo "exit $?"
