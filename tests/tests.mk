# tests/tests.mk: deps, demo, check, check-more, check-all, bench, fuzz, layers, lint, format and clean.
.PHONY: mutate rivals storm storm-host gpu-programs check-gpu bench-gpu visit-gpu straggler deps demo papers figures plots check check-more check-torch check-all bench detector layers lint format fuzz bless clean

deps: ## install the Debian packages that are missing
	@./tests/deps.sh build

demo: ## install what is missing, build, run the built-in scenario, say where the plots are
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory -j2 $(BIN) $(RANK)
	@./luoshu demo --force

# The long ones first. WAITING have a lane of their own in tests/run.sh, beside those that compute: their ranks wait
# for each other, for time to pass, or to be killed. MORE_.. are of `make check-more`: what takes more than about nine
# seconds of a processor (tests/out/times of the build), and the CUDA executor on its stand-in, which has to be built.
WAITING := $(filter %/exec/check_watch,$(UNIT))
MORE_WAITING := $(addprefix tests/,faults.sh checkpoints.sh sets.sh hosts.sh) $(filter %/exec/check_fleet,$(UNIT))
SCRIPTS := $(addprefix tests/,golden.sh calibrate.sh validate.sh gpu.sh training.sh deps_wait.sh)
MORE_SCRIPTS := $(addprefix tests/,docs.sh real.sh recipes.sh lengths.sh cuda.sh results.sh ptx.sh sync.sh \
    golden_more.sh links.sh process.sh hf.sh report.sh progress.sh sweep.sh)
LONG := $(addprefix $(B)/tests/,$(addprefix mpi/,bucket context drain hap packed reroute shard staggered) \
    $(addprefix diff/,diff_begins diff_offers diff_sim_closed diff_sim_fold diff_sim_ladder diff_uniform) backend/sim_ahead \
    $(addprefix unit/,check_judge_lengths check_lengths_run check_memory check_nomem_run check_plots check_real) prop/prop_tally)

# Programs of several files: rules of their own. Sources of storm-host begin with `host`.
STORM := $(B)/tests/storm/storm
STORM_OBJ := $(patsubst %.c,$(B)/%.o,$(sort $(filter-out tests/storm/host%,$(wildcard tests/storm/*.c))))
$(STORM): $(STORM_OBJ) $(PARKED_LIB) $(CORE_LIB)
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) $^ $(CORE_LIBS) -lm -o $@
storm: $(BIN) $(STORM) ## STORM_N (2000) random scenarios simulated from LUO_SEED (1) on, and what has to hold afterwards
	@LUOSHU=$(abspath $(BIN)) STORM_N=$(or $(STORM_N),2000) nice $(STORM)
# Reads folders of Hugging Face without luoshu: tests/hf.sh.
PUBLIC := $(B)/tests/hf/public
$(PUBLIC): $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/hf/*.c)))
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) $^ -ljansson -lm -o $@
STORM_HOST := $(B)/tests/storm/host
STORM_HOST_OBJ := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/storm/host*.c)))
$(STORM_HOST): $(STORM_HOST_OBJ) $(CORE_LIB)
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) $^ $(CORE_LIBS) -lm -o $@
storm-host: $(BIN) $(RANK) $(STORM_HOST) ## STORM_N (200) random real runs, struck, starved and resumed, beside one rank
	@LUOSHU=$(abspath $(BIN)) STORM_N=$(or $(STORM_N),200) nice $(STORM_HOST)

LENGTHGAIN := $(B)/tests/curves/lengthgain
rivals: ## do planners hold against the best of the others? malleus, hydraulis in random settings, auto on 14 pairs
	@./tests/deps.sh build
	@$(MAKE) --no-print-directory -j2 $(BIN) $(LENGTHGAIN)
	@lost=0; LUOSHU=$(abspath $(BIN)) ./tests/rivals.sh || lost=1; \
	LENGTHGAIN=$(abspath $(LENGTHGAIN)) ./tests/rivals_lengths.sh || lost=1; \
	LUOSHU=$(abspath $(BIN)) ./tests/auto_pairs.sh || lost=1; exit $$lost

papers: ## replay the published evaluations: ours beside what was published, tables and figures
	@./tests/deps.sh build
	@$(MAKE) --no-print-directory -j2 $(BIN)
	@LUOSHU=$(abspath $(BIN)) ./tests/papers.sh

figures: ## sweeps of `sync`, `embed` and `moe`: tables and figures in luoshu-figures (3 minutes)
	@./tests/deps.sh build
	@$(MAKE) --no-print-directory -j2 $(BIN)
	@LUOSHU=$(abspath $(BIN)) ./tests/sync_figures.sh luoshu-figures/sync
	@LUOSHU=$(abspath $(BIN)) ./tests/embed_figures.sh luoshu-figures/embed
	@LUOSHU=$(abspath $(BIN)) ./tests/moe_figures.sh luoshu-figures/moe

# Every test there is, by name: `make check` runs some, `make check-more` the others, `make check-all` all of them; what
# check-all adds to each hangs on LUO_SCALE alone (CONTRIBUTING.md).
TEST_PROGRAMS := $(UNIT) $(MPI_TESTS) $(CUDA_TESTS) $(STANDIN_RANK) $(STORM) $(STORM_HOST) $(PUBLIC)
MORE_PROGRAMS := $(LONG) $(CUDA_TESTS) $(STANDIN_RANK) $(STORM) $(STORM_HOST) $(PUBLIC) $(filter $(MORE_WAITING),$(UNIT))
TESTS := $(SCRIPTS) $(filter-out $(MORE_PROGRAMS),$(MPI_TESTS)) $(filter-out $(WAITING) $(MORE_PROGRAMS),$(UNIT))
MORE_TESTS := $(MORE_SCRIPTS) $(filter-out $(STANDIN_RANK) $(STORM_HOST) $(PUBLIC) $(MORE_WAITING),$(MORE_PROGRAMS))
RUN_TESTS = B=$(B) LUOSHU=$(abspath $(BIN)) NO_CUDA='$(NO_CUDA)' NVCC='$(NVCC)' CUDA_OBJECTS=$(B)/one \
    $(if $(SAN),CK_TIMEOUT_MULTIPLIER=8)
# Programs for GPUs are linked by make check-all, and by make check-more with all kernels in one unit, though nothing
# here may run them.
LINKED = $(if $(NO_CUDA),,$(GPU_PROGRAMS))
check: ## install what is missing, build, test (four minutes of a processor, half of them the build)
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory -j2 $(BIN) $(RANK) $(filter-out $(MORE_PROGRAMS),$(TEST_PROGRAMS))
	@$(RUN_TESTS) WAITING='$(WAITING)' GOLDEN=check ./tests/run.sh $(TESTS)

check-more: ## what is left: long programs, commands of the docs, recipes, ranks that fail, CUDA's stand-in (13 minutes of a processor)
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory -j2 $(BIN) $(RANK) $(MORE_PROGRAMS) $(CUDA_ONE_RANK) $(GPU_ONE_PROGRAMS)
	@$(RUN_TESTS) WAITING='$(MORE_WAITING) $(STORM_HOST)' ./tests/run.sh $(MORE_TESTS)

check-torch: ## train twenty steps here and in Debian's PyTorch, and compare
	@./tests/deps.sh build torch
	@$(MAKE) --no-print-directory -j2 $(BIN) $(RANK)
	@LUOSHU=$(abspath $(BIN)) ./tests/torch/check.sh

mutate: ## do the tests notice? MUTANTS (200) random one-token mutants of core, sim and exec/host, from LUO_SEED (1)
	@./tests/deps.sh build
	@nice ./tests/mutate.sh

FUZZ_S ?= 60
check-all: ## check with 10 to 100 times the random cases, a long real run, sanitizers, FUZZ_S s of each fuzzer, mutants
	@./tests/deps.sh build lint bundle
	@$(MAKE) --no-print-directory -j2 $(BIN) $(RANK) $(TEST_PROGRAMS) $(CUDA_RANK) $(LINKED) bundle-parts $(BUNDLE_BARE)
	@$(RUN_TESTS) LUO_SCALE=10 LUO_SCALE_RESOLVE=100 CK_TIMEOUT_MULTIPLIER=20 CUDA_OBJECTS= \
	    WAITING='$(WAITING) $(MORE_WAITING) $(STORM_HOST)' ./tests/run.sh $(TESTS) $(MORE_TESTS)
	@LUOSHU=$(abspath $(BIN)) ./tests/long.sh
	@LUOSHU=$(abspath $(BIN)) ./tests/straggler.sh
	@B=$(B) LUOSHU=$(abspath $(BIN)) ./tests/bundle.sh
	@$(MAKE) --no-print-directory -j2 $(STANDIN_BENCH)
	@B=$(B) LUOSHU=$(abspath $(BIN)) ./tests/visit.sh standin
	@$(MAKE) --no-print-directory storm
	@$(MAKE) --no-print-directory storm-host
	@$(MAKE) --no-print-directory SAN=address,undefined check
	@$(MAKE) --no-print-directory SAN=address,undefined check-more
	@$(MAKE) --no-print-directory fuzz
	@$(MAKE) --no-print-directory mutate

FUZZ := $(patsubst tests/fuzz/%.c,build/fuzz/%,$(FUZZ_SRC))
FUZZ_FLAGS := -std=c11 -D_GNU_SOURCE -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -I.
# All of core, and what of exec reads texts and messages and knows no MPI.
FUZZ_OBJ := $(patsubst %.c,build/fuzz/obj/%.o,$(CORE_SRC) $(PARKED_SRC) exec/coordinator/hosts.c exec/message.c exec/wire.c)
build/fuzz/obj/%.o: %.c
	@mkdir -p $(@D)
	@clang $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c $< -o $@
build/fuzz/%: build/fuzz/obj/tests/fuzz/%.o $(FUZZ_OBJ) $(B)/core/io/builtin_files.o
	$(call SAY,LD,$@) clang $(FUZZ_FLAGS) -fsanitize=fuzzer $^ $(CORE_LIBS) -lm -o $@
fuzz: $(FUZZ) ## run each fuzz target for FUZZ_S seconds (default 60), from FUZZ_SEED
	@FUZZ_S=$(FUZZ_S) FUZZ_SEED=$(FUZZ_SEED) ./tests/fuzz.sh $(FUZZ)
-include $(shell find build/fuzz/obj -name '*.d' 2>/dev/null)

straggler: $(BIN) $(RANK) ## a slow rank in real time: static, rebalance, malleus, beside the simulator (6 minutes, quiet machine)
	@LUOSHU=$(abspath $(BIN)) ./tests/straggler.sh build/straggler

bench: $(BIN) $(RANK) $(BENCH) $(B)/tests/curves/lengthgain ## print `name value unit` lines: medians on this machine
	@for b in $(BENCH); do $$b || exit 1; done
	@LENGTHGAIN=$(abspath $(LENGTHGAIN)) ./tests/rivals_lengths.sh build/lengthgain grid || true

plots: $(BIN) ## every figure of shipped runs, small and large, on one page at both widths (6 minutes)
	@LUOSHU=$(abspath $(BIN)) ./tests/gallery.sh build/gallery

detector: $(B)/tests/curves/detector ## the detector under noise: delays and false alarms, table and figure
	@mkdir -p build/detector/plots
	@$< >build/detector/plots/detector.csv
	@gnuplot -d -e "run='build/detector'; out='build/detector/plots/detector'; ran='synthetic noise'" plots/detector.gp
	@echo build/detector/plots/detector.csv; echo build/detector/plots/detector.svg

layers: $(CORE_LIB) $(EXEC_LIB) $(BIN) ## check the direction of includes and of symbols between folders
	@B=$(B) CC="$(CC)" ./tests/layers.sh "$(CORE_LIBS)"

lint: ## cppcheck, both compilers' warnings as errors, house rules
	@./tests/deps.sh build lint
	@CUDA_CFLAGS="$(CUDA_CFLAGS)" ./tests/lint.sh

format: ## clang-format the C and C++ files in place
	@clang-format -i $(shell git ls-files '*.c' '*.h' '*.inc' '*.cpp')

bless: $(BIN) ## rewrite the expected outputs of tests/golden; review the diff like code
	@LUOSHU=$(abspath $(BIN)) BLESS=1 ./tests/golden.sh

clean: ## remove build/, the link, results of the demo and figures
	rm -rf build luoshu luoshu-demo luoshu-figures

# Programs for a machine with a GPU, with the real libraries: tests/cuda but for those of the stand-in
# itself, and tests/gpu. What make check-more runs are the same sources on the stand-in.
GPU_SRC := $(sort $(filter-out $(foreach t,standin streams cublas gpu,tests/cuda/check_$(t).%), \
           $(wildcard tests/cuda/*.c tests/cuda/*.cpp tests/cuda/*.cu tests/cuda/mpi/*.c)) \
           $(filter-out tests/gpu/no_standin.c,$(wildcard tests/gpu/*.c tests/gpu/*.cu)))
GPU_PROGRAMS := $(patsubst %,$(B)/gpu/%,$(basename $(GPU_SRC)))
GPU_FLAGS := $(CUDA_CFLAGS) $(MPI_CFLAGS) $(BLAS_CFLAGS)
$(B)/gpu/%.o: %.c
	@mkdir -p $(@D)
	$(call SAY,CC,$<) $(CC) $(CFLAGS) $(GPU_FLAGS) -MMD -MP -c $< -o $@
$(B)/gpu/%.o: %.cpp
	@mkdir -p $(@D)
	$(call SAY,CXX,$<) $(CXX) $(CXXFLAGS) $(GPU_FLAGS) -MMD -MP -c $< -o $@
$(B)/gpu/%.o: %.cu
	@mkdir -p $(@D)
	$(call SAY,NVCC,$<) $(NVCC) $(NVCCFLAGS) $(CUDA_CODE) $(GPU_FLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@
$(B)/gpu/libluocuda.a: $(CUDA_OBJ) $(B)/gpu/tests/gpu/no_standin.o
	@mkdir -p $(@D); rm -f $@; ar rcs $@ $^
$(B)/gpu/tests/%: $(B)/gpu/tests/%.o $(B)/gpu/libluocuda.a $(EXEC_LIB) $(CORE_LIB)
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) $^ $(CUDA_LIBS) -Wl,--as-needed $(EXEC_LIBS) -lcheck -lsubunit \
	    -lrt -lpthread $(CORE_LIBS) -lm -o $@
# The same with the kernels of make check-more, for that they link.
GPU_ONE_PROGRAMS := $(if $(NO_CUDA),,$(patsubst $(B)/gpu/%,$(B)/one/gpu/%,$(GPU_PROGRAMS)))
$(B)/one/gpu/libluocuda.a: $(CUDA_ONE_OBJ) $(B)/gpu/tests/gpu/no_standin.o
	@mkdir -p $(@D); rm -f $@; ar rcs $@ $^
$(B)/one/gpu/tests/%: $(B)/gpu/tests/%.o $(B)/one/gpu/libluocuda.a $(EXEC_LIB) $(CORE_LIB)
	@mkdir -p $(@D)
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) $^ $(CUDA_LIBS) -Wl,--as-needed $(EXEC_LIBS) -lcheck -lsubunit \
	    -lrt -lpthread $(CORE_LIBS) -lm -o $@
gpu-programs: $(BIN) $(RANK) $(CUDA_RANK) $(GPU_PROGRAMS)

STANDIN_BENCH := $(patsubst %.c,$(B)/%,$(filter-out tests/gpu/no_standin.c,$(wildcard tests/gpu/*.c)))

# What the scripts look for themselves comes before anything is built: without a GPU nothing happens.
GPU_RUN = B=$(B) LUOSHU=$(abspath $(BIN)) NO_CUDA='$(NO_CUDA)' NVCC='$(NVCC)' CUDA_HOME='$(CUDA_HOME)' MAKE='$(MAKE)'
check-gpu: ## on a machine with a GPU: every test of the cuda backend for real, and under compute-sanitizer
	@+$(GPU_RUN) ./tests/gpu/check.sh

bench-gpu: ## on a machine with a GPU: training and kernels, beside PyTorch and what the GPU can do
	@+$(GPU_RUN) ./tests/gpu/bench.sh
visit-gpu: ## a short visit to a machine with a GPU: what teaches most first, in 25 minutes (tests/gpu/visit.sh)
	@+$(GPU_RUN) ./tests/gpu/visit.sh
