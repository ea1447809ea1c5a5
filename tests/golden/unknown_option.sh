"$LUOSHU" resolve "[0]{}" "[0]{}" --shap 4
