# check-more
bash "$TOP/tests/published.sh"
