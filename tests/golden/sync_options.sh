# Every sentence about options of `luoshu sync`.
l() { "$LUOSHU" sync "$@" >/dev/null; local rc=$?; [ $rc = 2 ] || echo "exit $rc: sync $*"; }
some="--workers 4 --compute-s 1 --horizon-s 5" all="$some --sync-s 0.1"
l bps $all
l bsp
l bsp --workers 4
l bsp --workers 4 --compute-s 1
l bsp --workers 0 --compute-s 1 --horizon-s 5
l bsp --workers 4 --compute-s 1,2 --horizon-s 5
l bsp --workers 4 --compute-s 1,x --horizon-s 5
l bsp --workers 4 --compute-s 0 --horizon-s 5
l bsp --workers 4 --compute-s 1 --horizon-s 0
l bsp $all --steps 3
l bsp scenario.yaml
l scenario.yaml --workers 3
l ssp $all
l ssp $all --staleness -2
l asp $all --staleness 3
l asp $all --groups guard=3
l preduce $all --groups max_group=5
l preduce $all --groups adaptive=yes
l preduce $all --groups wait_max_s=1
l preduce $all --groups adaptive=on,wait_max_s=1,wait_min_s=2
l preduce $all --groups beta=0
l preduce $all --groups request_s=-1
l allreduce $all --groups request_s=1
l bsp $all --straggler slow
l bsp $all --straggler factor:4=2
l bsp $all --servers 2
l bsp $some
l bsp $some --keys zipf
l bsp $some --keys zipf --servers 1 --hybrid kind
l bsp $some --keys zipf:size=3 --servers 1
l bsp $some --keys zipf:batch=1.5 --servers 1
l bsp $some --keys zipf:batch=1e7,slots=1e4 --servers 1
l bsp $some --exchange hybrid --keys zipf
l bsp $some --exchange allreduce --dense-bytes 1e6 --servers 1
l ssp --staleness 1 $some --exchange allreduce --dense-bytes 1e6
l preduce $some
l preduce $some --dense-bytes 1e6 --exchange ps
l preduce $some --dense-bytes 1e6 --servers 2
l bsp $all --die 4=3
l bsp $all --die 1
l bsp $all --die 1=3,1=4
l bsp $all --die 1=3, 
l bsp $all --die controller=3
l allreduce $all --die server=3
