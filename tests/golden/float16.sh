# A config in float16 is read by every verb with the type that it is to be trained in.
cat >config.json <<'END'
{"model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4,
 "num_attention_heads": 8, "vocab_size": 256, "max_position_embeddings": 128,
 "torch_dtype": "float16"}
END
S=$TOP/scenarios
on="--model config.json --cluster $S/clusters/tiny2.yaml"
plan="plan uniform $on --tp 1 --pp 2 --dp 1 --global-batch-size 4 --seq-length 32"
"$LUOSHU" explain config.json
echo "exit $?"
"$LUOSHU" explain config.json --dtype f32
"$LUOSHU" explain config.json --dtype f16
echo "exit $?"
"$LUOSHU" check config.json --dtype bf16
"$LUOSHU" $plan --out p.json >/dev/null
echo "exit $?"
"$LUOSHU" $plan --dtype f32 --out p.json --quiet >/dev/null
grep -o '"dtype": "[a-z0-9]*"' p.json
"$LUOSHU" explain p.json $on --dtype f32 --quiet | sed -n 2p
"$LUOSHU" check p.json $on --dtype f32
"$LUOSHU" sim p.json $on --dtype f32 --quiet --plots off --out r >/dev/null
echo "exit $?"
"$LUOSHU" switch p.json p.json $on --dtype f32 --quiet | head -n 1
