"$LUOSHU" simulate demo.yaml
