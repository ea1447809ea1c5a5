# Verbs that this version does not have are refused with a sentence, not with silence.
for v in report sweep; do "$LUOSHU" $v x; echo "$v $?"; done
