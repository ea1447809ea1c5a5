# check-more
# Every vector of tests/vectors/resolve.txt through the command: kind and op lines must be equal.
bad=0; n=0
while IFS= read -r line; do
    case $line in '#'*|'') continue ;; esac
    line=${line%%   #*}
    id=${line%%  *}; rest=${line#"$id"  }
    src=${rest%%  =>  *}; rest=${rest#*  =>  }
    dst=${rest%%  @ *}; rest=${rest#*  @ }
    head=${rest%%  :  *}; tail=${rest#*  :  }
    kind=${tail%%  :  *}; ops=
    [ "$kind" = "$tail" ] || ops=${tail#*  :  }
    set -- $head
    opts=(--shape "$1" --node-size 4); shift
    while [ $# -gt 0 ]; do
        case $1 in
        node) opts+=(--node-size "$2"); shift ;;
        rack) opts+=(--rack-size "$2"); shift ;;
        fallback) opts+=(--reduce-then-move) ;;
        *) opts+=(--planner "$1") ;;
        esac
        shift
    done
    want="kind: $kind"
    if [ "$kind" = unsupported ]; then
        got=$("$LUOSHU" resolve "$src" "$dst" "${opts[@]}" 2>err | head -n 1)
        grep -q "($ops:" err || { echo "$id: reason $ops is not in: $(cat err)"; bad=$((bad + 1)); }
    else
        [ -z "$ops" ] || want="$want"$'\n'$(echo "$ops" | sed 's/; /\n/g')
        got=$("$LUOSHU" resolve "$src" "$dst" "${opts[@]}" 2>&1 | grep -v '^bytes ')
    fi
    [ "$got" = "$want" ] || { echo "$id:"; diff <(echo "$want") <(echo "$got"); bad=$((bad + 1)); }
    n=$((n + 1))
done <"$TOP/tests/vectors/resolve.txt"
echo "$n vectors, $bad wrong"
