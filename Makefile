# luoshu: one Makefile, not recursive. `make help` lists the targets.
# Variants live side by side: build/release, build/address-undefined (SAN=address,undefined).
SHELL := /bin/bash
CC ?= gcc
CXX ?= g++
ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin CXX),default)
CXX := g++
endif
SAN ?=
comma := ,
VARIANT := $(if $(SAN),$(subst $(comma),-,$(SAN)),release)$(if $(findstring clang,$(CC)),-clang)
B := build/$(VARIANT)
OPT ?= -O2
# Lines for backtraces, sanitizers and gcov; a debugger wants DEBUG_INFO=-g (after make clean), which takes a seventh more
# time. Not DEBUG: environments have one of their own.
DEBUG_INFO ?= -g1
WARN := -Wall -Wextra -Wshadow -Wconversion $(if $(CI),-Werror)
SANF := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
GIT := $(shell git describe --always --dirty 2>/dev/null || echo unknown)
CFLAGS += -std=c11 -D_GNU_SOURCE $(OPT) $(DEBUG_INFO) $(WARN) $(SANF) -I.
CXXFLAGS += -std=c++17 $(OPT) $(DEBUG_INFO) -Wall -Wextra $(SANF) -I.
LDFLAGS += $(SANF)
# GLPK only where a planner is linked: ranks do without.
CORE_LIBS := -lyaml -ljansson -lcsv -lz -lexpat -Wl,--push-state,--as-needed -lglpk -Wl,--pop-state
SIM_LIBS := -lsimgrid -lstdc++
LIBS := $(SIM_LIBS) $(CORE_LIBS) -lm
# Only executors know MPI and BLAS, and only `luoshu-rank` links them: they would cost the command its
# start-up time. OpenBLAS takes a thread per core unless told; a rank is one core, so exec/main.c says
# openblas_set_num_threads(1) before anything else, and programs in tests/ that use CBLAS do too.
MPI_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags-only-I ompi-c 2>/dev/null))
BLAS_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags-only-I openblas 2>/dev/null))
EXEC_LIBS := $(or $(shell pkg-config --libs ompi-c 2>/dev/null),-lmpi) \
             $(or $(shell pkg-config --libs openblas 2>/dev/null),-lopenblas)

CORE_SRC := $(sort $(wildcard core/*/*.c core/*/*/*.c))
SIM_SRC := $(sort $(filter-out sim/plugin/loaded.c,$(wildcard sim/*.c sim/*/*.c)))
SIM_CXX := $(sort $(wildcard sim/*.cpp))
EXEC_SRC := $(sort $(filter-out exec/main.c exec/main_cuda.c exec/bundle/% exec/cuda/%,$(wildcard exec/*.c exec/*/*.c exec/*/*/*.c)))
CLI_SRC := $(sort $(filter-out cli/main.c,$(wildcard cli/*.c cli/*/*.c)))
EMBED := $(sort $(wildcard scenarios/demo/demo.yaml scenarios/demo/plan.json scenarios/clusters/mixed48.yaml \
         scenarios/models/llama-32b.yaml scenarios/profiles/h20.yaml scenarios/profiles/h800.yaml \
         scenarios/profiles/tables/h20.csv scenarios/profiles/tables/h800.csv \
         scenarios/host/demo.yaml scenarios/host/ranks8.yaml scenarios/host/chosen.yaml \
         scenarios/host/llama-5m.yaml scenarios/host/plans/ranks-8.json \
         plots/*.gp))
# Style and script of report.html, the library first.
PAGE := plots/report/uplot.css plots/report/report.css plots/report/uplot.js plots/report/report.js
# Profiles, their tables and stacks, which files may name without a path.
BUILTIN := $(sort $(wildcard scenarios/profiles/*.yaml scenarios/profiles/tables/*.csv \
           scenarios/profiles/stacks/*.yaml))
obj = $(patsubst %,$(B)/%.o,$(basename $(1)))
CORE_LIB := $(B)/libluocore.a
SIM_LIB := $(B)/libluosim.a
CLI_LIB := $(B)/libluocli.a
EXEC_LIB := $(B)/libluoexec.a
BIN := $(B)/luoshu
LINK := luoshu
RANK := $(B)/luoshu-rank

UNIT_SRC := $(sort $(wildcard tests/unit/*.c tests/prop/*.c tests/diff/*.c tests/backend/*.c \
            tests/exec/*.c))
UNIT := $(patsubst tests/%.c,$(B)/tests/%,$(UNIT_SRC))
# Programs of several ranks: tests/run.sh starts them with mpirun.
MPI_SRC := $(sort $(wildcard tests/mpi/*.c))
MPI_TESTS := $(patsubst tests/%.c,$(B)/tests/%,$(MPI_SRC))
# The CUDA executor on the stand-in for CUDA (tests/standin/README.md), and programs that test it there.
STANDIN_SRC := $(sort $(wildcard tests/standin/*.c exec/cuda/*.c exec/cuda/*/*.c exec/cuda/*/*.cu))
STANDIN_LIB := $(B)/libluostandin.a
CUDA_SRC := $(sort $(wildcard tests/cuda/*.c tests/cuda/*.cpp tests/cuda/*.cu tests/cuda/mpi/*.c))
CUDA_TESTS := $(patsubst tests/%,$(B)/tests/%,$(basename $(CUDA_SRC)))
# The rank program on it, and a command that finds it beside itself: tests/cuda.sh.
STANDIN_RANK := $(B)/standin/luoshu $(B)/standin/luoshu-rank-cuda
BENCH_SRC := $(sort $(wildcard tests/bench/*.c))
BENCH := $(patsubst tests/%.c,$(B)/tests/%,$(BENCH_SRC))
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))

include sim/plugin/plugin.mk
include exec/cuda/cuda.mk
include exec/bundle/bundle.mk

.DEFAULT_GOAL := all
.PHONY: all help FORCE
all: $(BIN) $(RANK) $(CUDA_RANK) ## build the luoshu command (build/VARIANT/luoshu), the link `luoshu` and luoshu-rank

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: schemas
schemas: $(BIN) ## JSON Schemas of the input files in build/schemas, for editors
	@mkdir -p build/schemas
	@for kind in $$($(BIN) help files | sed -n 2p); do \
	    $(BIN) help $$kind --json-schema > build/schemas/$$kind.schema.json || exit 1; done
	@ls build/schemas/*.schema.json

# V=1 shows the whole commands.
SAY = $(if $(V),,@printf '  %-4s %s\n' $(1) $(2);)
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call SAY,CC,$<) $(CC) $(CFLAGS) -MMD -MP -c $< -o $@
$(B)/%.o: %.cpp
	@mkdir -p $(@D)
	$(call SAY,CXX,$<) $(CXX) $(CXXFLAGS) -MMD -MP -c $< -o $@

$(CORE_LIB): $(call obj,$(CORE_SRC)) $(B)/core/io/builtin_files.o
	@rm -f $@; ar rcs $@ $^
$(EXEC_LIB): $(call obj,$(EXEC_SRC))
	@rm -f $@; ar rcs $@ $^
$(SIM_LIB): $(call obj,$(SIM_SRC) $(SIM_CXX))
	@rm -f $@; ar rcs $@ $^
$(B)/gen/embed.c: $(EMBED) cli/embed.sh
	@mkdir -p $(@D)
	@./cli/embed.sh cli/embed.h luo_embedded luo_embedded_files $(EMBED) > $@.tmp && mv $@.tmp $@
$(B)/gen/page.c: $(PAGE) cli/embed.sh
	@mkdir -p $(@D)
	@./cli/embed.sh cli/embed.h luo_embedded luo_embedded_page $(PAGE) > $@.tmp && mv $@.tmp $@
$(B)/gen/builtin.c: $(BUILTIN) cli/embed.sh
	@mkdir -p $(@D)
	@./cli/embed.sh core/io/builtin.h luo_builtin luo_builtin_files $(BUILTIN) > $@.tmp && mv $@.tmp $@
# With the objects of core/io, whose part it is.
$(B)/core/io/builtin_files.o: $(B)/gen/builtin.c
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) -c $< -o $@
$(B)/gen/embed.o $(B)/gen/page.o: %.o: %.c
	@$(CC) $(CFLAGS) -c $< -o $@
# What `luoshu version` prints; remade only when it changes.
BUILD_FLAGS := $(OPT)$(if $(SAN), -fsanitize=$(SAN))
$(B)/cli/build_info.o: CFLAGS += -DLUO_GIT='"$(GIT)"' -DLUO_FLAGS='"$(BUILD_FLAGS)"' \
    -DLUO_CUDA='"$(CUDA_BUILD)"' -DLUO_NO_CUDA='"$(NO_CUDA)"'
STAMP := $(GIT) $(BUILD_FLAGS) $(CUDA_BUILD)$(NO_CUDA)
$(B)/gen/stamp: FORCE
	@mkdir -p $(@D)
	@echo '$(STAMP)' | cmp -s - $@ || echo '$(STAMP)' > $@
$(B)/cli/build_info.o: $(B)/gen/stamp
FORCE:
$(CLI_LIB): $(call obj,$(CLI_SRC)) $(B)/gen/embed.o $(B)/gen/page.o
	@rm -f $@; ar rcs $@ $^
# The coordinator's part of exec alone: nothing in it knows MPI. Of sim what knows no SimGrid, and what the rest calls.
$(BIN): $(B)/cli/main.o $(BIN_SIM) $(CLI_LIB) $(SIM_LIB) $(EXEC_LIB) $(CORE_LIB) $(BIN_NEEDS)
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) $(B)/cli/main.o $(BIN_SIM) $(BIN_NEEDS:%=@%) $(CLI_LIB) $(SIM_LIB) $(EXEC_LIB) $(CORE_LIB) $(BIN_LIBS) -o $@
	$(if $(LINK),@ln -sf $@ $(LINK))

# One process of a real run; knows neither cli nor sim.
$(B)/luoshu-rank: $(B)/exec/main.o $(EXEC_LIB) $(CORE_LIB)
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) $< $(EXEC_LIB) $(CORE_LIB) $(EXEC_LIBS) $(CORE_LIBS) -lpthread -lm -o $@
$(B)/exec/%.o $(B)/tests/exec/%.o $(B)/tests/mpi/%.o $(B)/tests/bench/%.o: CFLAGS += $(MPI_CFLAGS)
$(B)/exec/main.o $(B)/exec/host/%.o $(B)/tests/exec/%.o $(B)/tests/bench/%.o: CFLAGS += $(BLAS_CFLAGS)
# Loops of kernels become vectors; no flag here lets the compiler reorder a sum (same input, same bits).
$(B)/exec/host/%.o: CFLAGS += -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast -fopenmp-simd \
    $(if $(SAN),-DLUO_SANITIZED)

# Objects that only tests use (tests/parked/README.md).
PARKED_SRC := $(sort $(wildcard tests/parked/*.c))
PARKED_LIB := $(B)/libluoparked.a
$(PARKED_LIB): $(call obj,$(PARKED_SRC))
	@rm -f $@; ar rcs $@ $^

# Tests link everything below the command: a unit test of core pulls no sim object from its archive,
# and no MPI and BLAS either (--as-needed).
# Half of a build were tests' compilation and links: -O1, and -O0 for rows of tables, which take no time when they
# run; gold (Debian's binutils), where it is there, and nothing for debuggers (TEST_DEBUG= and TEST_LD= keep it).
TEST_OPT ?= -O1
TEST_DEBUG ?= $(if $(SAN),,-g0)
TEST_ROWS := $(filter tests/unit/% tests/backend/%,$(UNIT_SRC))
TEST_LD ?= $(if $(shell command -v ld.gold),-fuse-ld=gold) $(if $(SAN),,-Wl,--strip-debug)
$(patsubst %.c,$(B)/%.o,$(filter-out $(TEST_ROWS),$(UNIT_SRC)) $(MPI_SRC)): CFLAGS += $(TEST_OPT)
$(patsubst %.c,$(B)/%.o,$(TEST_ROWS)): CFLAGS += $(if $(SAN),$(TEST_OPT),-O0)
$(B)/tests/storm/%.o $(B)/standin/tests/cuda/%.o: CFLAGS += $(TEST_OPT)
$(B)/tests/%.o $(B)/standin/tests/%.o: CFLAGS += $(TEST_DEBUG)
$(B)/tests/%: LDFLAGS += $(TEST_LD)
$(B)/tests/%: $(B)/tests/%.o $(PARKED_LIB) $(CLI_LIB) $(SIM_LIB) $(EXEC_LIB) $(CORE_LIB)
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) $< $(PARKED_LIB) $(CLI_LIB) $(SIM_LIB) $(EXEC_LIB) $(CORE_LIB) \
	    -Wl,--as-needed $(EXEC_LIBS) -lcheck -lsubunit -lrt -lpthread $(LIBS) -o $@
# -Itests/standin stands first: its headers go before those of CUDA, its exec/cuda/kernels/device.cuh before ours.
STANDIN_SAN := $(if $(findstring address,$(SAN)),$(if $(findstring g++,$(CXX)),-fsanitize-sections='standin_shared*'))
STANDIN_FLAGS := -Itests/standin $(MPI_CFLAGS) $(BLAS_CFLAGS)
$(B)/standin/%.o: %.c
	@mkdir -p $(@D)
	$(call SAY,CC,$<) $(CC) $(STANDIN_FLAGS) $(CFLAGS) -MMD -MP -c $< -o $@
$(B)/standin/%.o: %.cpp
	@mkdir -p $(@D)
	$(call SAY,CXX,$<) $(CXX) $(STANDIN_FLAGS) $(CXXFLAGS) $(STANDIN_SAN) -MMD -MP -c $< -o $@
# Shared variables of templates get into sections of their own: GCC 12 forgets where they should go.
$(B)/standin/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(call SAY,CXX,$<) $(CXX) $(STANDIN_FLAGS) $(CXXFLAGS) -fdata-sections -Wno-unknown-pragmas $(if $(CI),-Werror) \
	    $(STANDIN_SAN) -MMD -MP -x c++ -c $< -o $@
	@tests/standin/shared.sh $@
$(STANDIN_LIB): $(patsubst %,$(B)/standin/%.o,$(STANDIN_SRC:.c=))
	@rm -f $@; ar rcs $@ $^
$(B)/tests/gpu/%: $(B)/standin/tests/gpu/%.o $(STANDIN_LIB) $(EXEC_LIB) $(CORE_LIB)
	@mkdir -p $(@D)
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) $< $(STANDIN_LIB) $(EXEC_LIB) $(CORE_LIB) $(EXEC_LIBS) \
	    -lcheck -lsubunit -lrt -lpthread $(CORE_LIBS) -lstdc++ -lm -o $@
$(B)/standin/luoshu-rank-cuda: $(B)/standin/exec/main_cuda.o $(STANDIN_LIB) $(EXEC_LIB) $(CORE_LIB)
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) $^ $(EXEC_LIBS) -lrt -lpthread $(CORE_LIBS) -lstdc++ -lm -o $@
$(B)/standin/luoshu: $(BIN)
	@mkdir -p $(@D); cp $< $@.tmp && mv $@.tmp $@; ln -sf ../luoshu-sim.so $(@D)
$(B)/tests/cuda/%: $(B)/standin/tests/cuda/%.o $(STANDIN_LIB) $(EXEC_LIB) $(CORE_LIB)
	@mkdir -p $(@D)
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) $< $(STANDIN_LIB) $(EXEC_LIB) $(CORE_LIB) $(EXEC_LIBS) \
	    -lcheck -lsubunit -lrt -lpthread $(CORE_LIBS) -lstdc++ -lm -o $@
$(B)/tests/cuda/%: $(B)/standin/tests/cuda/%.cu.o $(STANDIN_LIB) $(EXEC_LIB) $(CORE_LIB)
	@mkdir -p $(@D)
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) $< $(STANDIN_LIB) $(EXEC_LIB) $(CORE_LIB) $(EXEC_LIBS) \
	    -lcheck -lsubunit -lrt -lpthread $(CORE_LIBS) -lstdc++ -lm -o $@
$(B)/tests/bench/bench_train: LDFLAGS += -Wl,--wrap=cblas_sgemm
# Allocators that two tests put their own in the place of (tests/nomem.h).
NOMEM := malloc calloc realloc free \
    $(addprefix luo_,$(addprefix arena_,new alloc calloc grow strndup strdup printf) vec_grow32 vec_grow64)
$(addprefix $(B)/tests/unit/check_,nomem nomem_run): LDFLAGS += $(addprefix -Wl$(comma)--wrap=,$(NOMEM))
# METIS is one bench's reference, and linked there alone, where libmetis-dev is installed.
METIS := $(shell $(CC) -E -include metis.h -x c /dev/null >/dev/null 2>&1 && echo yes)
$(B)/tests/bench/bench_partition.o: CFLAGS += $(if $(METIS),-DLUO_METIS)
$(B)/tests/bench/bench_partition: LIBS += $(if $(METIS),-lmetis)
.SECONDARY:

-include $(shell find $(B) -name '*.d' 2>/dev/null)
include tests/tests.mk
