bash "$TOP/tests/published.sh"
