#!/usr/bin/env bash
# Every figure of shipped runs, small and large, on one page at both widths, so that a change of a figure can be looked at.
# usage: tests/gallery.sh [OUT] (build/gallery)
#   OUT/index.html  the page; OUT/2/, OUT/1/  figures 174 and 84 mm wide, as SVG, PNG and PDF; OUT/runs/  the results
# Exit 4: a command failed, or a figure that `luoshu plot` knows is not on the page.
# Eight minutes on two cores.
set -u
export LC_ALL=C
L=${LUOSHU:-$PWD/luoshu} out=${1:-build/gallery}
runs=$out/runs
scenarios=scenarios
mkdir -p "$runs" && rm -rf "${out:?}/1" "$out/2" "$out/list" && mkdir "$out/1" "$out/2" || exit 4

quiet() { # COMMAND..: its words are seen only when it fails
    "$@" >"$out/said" 2>&1 || { echo "gallery: FAILED: $*" >&2; cat "$out/said" >&2; exit 4; }
}
sim() { # NAME options..
    local name=$1
    shift
    "$L" sim "$@" --out "$runs/$name" --force --quiet --plots off >"$out/said" 2>&1
    # 1: a policy was lost, which is to be seen.
    [ $? -le 1 ] || { echo "gallery: FAILED: sim $*" >&2; cat "$out/said" >&2; exit 4; }
}

# Lines of OUT/list: width, name of the files in OUT/1 and OUT/2, figure, of what it is.
keep() { # WIDTH TITLE: takes the files away that `luoshu plot` names in OUT/said, before the other width replaces them
    local width=$1 title=$2 svg file name end
    grep '\.svg$' "$out/said" | while IFS= read -r svg; do
        file=${svg%.svg}
        name=$(printf '%s' "${file#"$runs"/}" | sed 's|/plots/|/|; s|[^A-Za-z0-9._-]|-|g')
        for end in svg png pdf; do mv "$file.$end" "$out/$width/$name.$end" || exit 4; done
        printf '%s\t%s\t%s\t%s\n' "$width" "$name" "${file##*/}" "$title" >>"$out/list"
    done
}
figures() { # TITLE FOLDER [option..]: of a folder of results
    local title=$1 folder=$2 width
    shift 2
    for width in 1 2; do
        quiet "$L" plot "$folder" "$@" --column $width
        keep $width "$title"
    done
}
drawn() { # TITLE FOLDER FIGURE..: of a folder that holds no run, by hand
    local title=$1 folder=$2 width figure
    shift 2
    for figure in "$@"; do
        for width in 1 2; do
            quiet gnuplot -d -e "column=$((width == 1)); run='$folder'; out='$folder/plots/$figure'" "plots/$figure.gp"
            echo "$folder/plots/$figure.svg" >"$out/said"
            keep $width "$title"
        done
    done
}

# ---- runs ----

sim day $scenarios/tutorial/day.yaml
figures "a day, two policies" "$runs/day"
sim spot $scenarios/combined/spot.yaml --set extent.duration_s=50000 --policies static,restart,oobleck,malleus,oracle
figures "rented nodes, five policies" "$runs/spot"
sim faults $scenarios/combined/recycle.yaml --set extent.duration_s=14400 --trace-steps 0
for figure in throughput goodput stepcdf timelost breakdown; do
    figures "random faults, seven policies" "$runs/faults" --figure $figure
done
figures "random faults, many switches" "$runs/faults/reroute" --figure switch
sim outage $scenarios/tutorial/day.yaml --set 'events[1].target=device:[0-9]' --set 'events[2].target=device:[0-9]' --trace-steps none
for figure in throughput timelost; do figures "too few GPUs for hours, which a run waits out" "$runs/outage" --figure $figure; done
sim stragglers $scenarios/papers/malleus-70b-three.yaml
for figure in throughput stepcdf timelost breakdown; do
    figures "three stragglers of 64 GPUs, six policies" "$runs/stragglers" --figure $figure
done
figures "three stragglers of 64 GPUs" "$runs/stragglers/malleus"
figures "three stragglers, step 11" "$runs/stragglers/malleus" --figure gantt --step 11
quiet "$L" plan uniform --model $scenarios/models/llama-7b.yaml --cluster $scenarios/clusters/a100-32x1.yaml --pp 32 \
    --tp 1 --dp 1 --schedule zb_h1 --seq-length 2048 --out "$runs/stages.json" --force
sim stages "$runs/stages.json" --model $scenarios/models/llama-7b.yaml --cluster $scenarios/clusters/a100-32x1.yaml --steps 2
figures "32 stages, zero-bubble" "$runs/stages/plan"
sim jobs $scenarios/examples/jobs.yaml
for figure in throughput stepcdf timelost breakdown; do figures "two jobs on one cluster" "$runs/jobs" --figure $figure; done
sim seeds $scenarios/combined/recycle.yaml --policies restart,oobleck,reroute --set extent.duration_s=7200 --seeds 1-4 \
    --trace-steps none
figures "three policies, four seeds" "$runs/seeds" --figure goodput
quiet "$L" sweep $scenarios/examples/small.yaml --grid 'events[0].slowdown=1.5,2,3,4' --grid model.layers=4,8 --seeds 1-3 \
    --policies static,restart --out "$runs/sweep" --force --quiet --plots off
figures "swept keys" "$runs/sweep"

# ---- recorded steps, published steps, lengths ----

quiet "$L" replay $scenarios/examples/recorded.csv --out "$runs/replay" --force --plots off
figures "recorded steps" "$runs/replay"
quiet "$L" validate synthetic --data $scenarios/examples/measured --out "$runs/validate" --force
drawn "published steps (synthetic)" "$runs/validate" predicted errorbox
for width in 1 2; do
    quiet "$L" plot syn-web syn-code --column $width --out "$runs/lengths"
    keep $width "lengths, synthetic"
    quiet "$L" plot $scenarios/examples/lengths.csv --column $width --out "$runs/lengths-file"
    keep $width "lengths of a file"
done

# ---- other simulations ----

for name in sync embed moe; do
    LUOSHU=$L ITERATIONS=30 VOCAB=20000 quiet tests/${name}_figures.sh "$runs/$name"
done
figures "ways of waiting" "$runs/sync"
for name in ssp preduce servers; do figures "ways of waiting: $name" "$runs/sync/$name"; done
figures "embedding tables" "$runs/embed"
for name in one-nic nic-a-device mixtral-8x7b; do figures "experts: $name" "$runs/moe/$name"; done

# ---- the page ----

known=$(sed -nE 's/^    X\([A-Z0-9_]+, "([a-z0-9_]+)".*/\1/p' core/io/plot/plots.c)
{
    echo '<!doctype html><html lang="en"><meta charset="utf-8"><title>Figures of luoshu</title>'
    echo '<style>body{font:14px sans-serif;margin:20px}figure{display:inline-block;margin:0 20px 20px 0;vertical-align:top}'
    echo 'img{border:1px solid #ccc}figcaption{color:#555}</style><h1>Figures of luoshu</h1>'
    for figure in $known; do
        echo "<h2 id=\"$figure\">$figure</h2>"
        awk -F '\t' -v figure="$figure" '$1 == 2 && ($3 == figure || index($3, figure "-") == 1) {
            for (width = 2; width >= 1; width--)
                printf "<figure><img src=\"%d/%s.svg\" alt=\"\"><figcaption>%s, %d mm</figcaption></figure>\n",
                       width, $2, $4, width == 2 ? 174 : 84
        }' "$out/list"
    done
    echo '</html>'
} >"$out/index.html"
rm -f "$out/said"
missing=
for figure in $known; do grep -qE "	$figure(-[0-9]+)?	" "$out/list" || missing="$missing $figure"; done
[ -z "$missing" ] || { echo "gallery: no run here has the figures:$missing" >&2; exit 4; }
echo "$out/index.html"
