# Every sentence about options of `sim --sync`.
l() { "$LUOSHU" sim "$@" >/dev/null; local rc=$?; [ $rc = 2 ] || echo "exit $rc: sim $*"; }
some="--workers 4 --compute-s 1 --horizon-s 5" all="$some --sync-s 0.1"
l --sync bps $all
l --sync bsp
l --sync bsp --workers 4
l --sync bsp --workers 4 --compute-s 1
l --sync bsp --workers 0 --compute-s 1 --horizon-s 5
l --sync bsp --workers 4 --compute-s 1,2 --horizon-s 5
l --sync bsp --workers 4 --compute-s 1,x --horizon-s 5
l --sync bsp --workers 4 --compute-s 0 --horizon-s 5
l --sync bsp --workers 4 --compute-s 1 --horizon-s 0
l --sync bsp $all --steps 3
l --sync bsp scenario.yaml
l scenario.yaml --workers 3
l --sync ssp $all
l --sync ssp $all --staleness -2
l --sync asp $all --staleness 3
l --sync asp $all --guard 3
l --sync preduce $all --max-group 5
l --sync preduce $all --adaptive yes
l --sync preduce $all --wait-max-s 1
l --sync preduce $all --adaptive on --wait-max-s 1 --wait-min-s 2
l --sync preduce $all --beta 0
l --sync preduce $all --request-s -1
l --sync allreduce $all --request-s 1
l --sync bsp $all --straggler slow
l --sync bsp $all --straggler factor:4=2
l --sync bsp $all --servers 2
l --sync bsp $some
l --sync bsp $some --keys zipf
l --sync bsp $some --keys zipf --servers 1 --hybrid kind
l --sync bsp $some --keys zipf:size=3 --servers 1
l --sync bsp $some --keys zipf:batch=1.5 --servers 1
l --sync bsp $some --keys zipf:batch=1e7,slots=1e4 --servers 1
l --sync bsp $some --exchange hybrid --keys zipf
l --sync bsp $some --exchange allreduce --dense-bytes 1e6 --servers 1
l --sync ssp --staleness 1 $some --exchange allreduce --dense-bytes 1e6
l --sync preduce $some
l --sync preduce $some --dense-bytes 1e6 --exchange ps
l --sync preduce $some --dense-bytes 1e6 --servers 2
l --sync bsp $all --die 4=3
l --sync bsp $all --die 1
l --sync bsp $all --die 1=3,1=4
l --sync bsp $all --die 1=3, 
l --sync bsp $all --die controller=3
l --sync allreduce $all --die server=3
