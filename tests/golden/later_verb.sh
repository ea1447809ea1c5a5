# Verbs that this version does not have are refused with a sentence, not with silence.
for v in report replay sweep import export; do "$LUOSHU" $v x; echo "$v $?"; done
