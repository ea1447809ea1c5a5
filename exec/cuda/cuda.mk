# exec/cuda/cuda.mk: the cuda backend, part of the Makefile.
# It is built where nvcc, cuBLASLt and NCCL are found, and never with a sanitizer: nvcc knows none, and the
# stand-in (tests/standin) covers the same sources. NVCC, CUDA_HOME and NCCL_HOME can be set;
# `make NVCC=` builds without. Only `luoshu-rank-cuda` links CUDA, as luoshu-rank alone links MPI and BLAS.
ifeq ($(origin NVCC),undefined)
NVCC := $(firstword $(if $(CUDA_HOME),$(wildcard $(CUDA_HOME)/bin/nvcc),$(shell command -v nvcc) \
            $(wildcard /usr/local/cuda/bin/nvcc)))
endif
NVCC_PATH := $(if $(NVCC),$(realpath $(shell command -v $(NVCC))))
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(NVCC_PATH))
CUDA_DIRS := $(CUDA_HOME) $(NCCL_HOME)
CUDA_INC := $(sort $(realpath $(addsuffix /include,$(CUDA_DIRS))))
CUDA_LIB := $(sort $(realpath $(addsuffix /lib64,$(CUDA_DIRS)) $(addsuffix /lib,$(CUDA_DIRS))))
cuda_header = $(if $(wildcard $(addsuffix /$(1),$(CUDA_INC) /usr/include)),,$(1))
cuda_library = $(if $(wildcard $(addsuffix /lib$(1).so,$(CUDA_LIB)) \
    $(filter /%,$(shell $(CC) -print-file-name=lib$(1).so))),,lib$(1).so)
CUDA_LACKS := $(strip $(if $(NVCC_PATH),$(foreach h,cuda_runtime_api.h cublasLt.h nccl.h,$(call cuda_header,$(h))) \
    $(foreach l,cudart cublasLt nccl,$(call cuda_library,$(l))),nvcc))
# Machine code for those of these that this nvcc knows, and PTX of the newest of them for what comes later.
CUDA_ARCH := $(if $(SAN)$(CUDA_LACKS),,$(filter 70 80 90,$(patsubst sm_%,%,$(shell $(NVCC) --list-gpu-code))))
CUDA_PTX := $(lastword $(CUDA_ARCH))
# Why it is not built; empty: it is.
NO_CUDA := $(if $(SAN),a sanitizer,$(if $(CUDA_LACKS),no $(CUDA_LACKS),$(if $(CUDA_ARCH),,no sm_70 to sm_90 in nvcc)))
CUDA_BUILD := $(if $(NO_CUDA),,$(strip $(addprefix sm_,$(CUDA_ARCH)) $(addprefix compute_,$(CUDA_PTX))))
CUDA_CFLAGS := $(addprefix -isystem ,$(filter-out /usr/include,$(CUDA_INC)))
# Not compressed: tests/ptx.sh reads the PTX that lies in the objects.
CUDA_PTX_CODE := $(foreach a,$(CUDA_PTX),-gencode arch=compute_$(a)$(comma)code=compute_$(a))
CUDA_CODE := $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a)$(comma)code=sm_$(a)) $(CUDA_PTX_CODE)
NVCCFLAGS += -std=c++17 -O3 -lineinfo --no-compress -I. $(CUDA_CFLAGS) -Xcompiler -Wall,-Wextra,-Wshadow $(if $(CI),-Werror all-warnings)
CUDA_LIBS := $(foreach d,$(CUDA_LIB),-L$(d) -Wl$(comma)-rpath$(comma)$(d)) -lcudart -lcublasLt -lnccl -lstdc++

EXEC_CUDA_SRC := $(if $(NO_CUDA),,$(sort $(wildcard exec/cuda/*.c exec/cuda/*/*.c exec/cuda/*/*.cu)))
CUDA_OBJ := $(patsubst %,$(B)/%.o,$(EXEC_CUDA_SRC))
CUDA_RANK := $(CUDA_OBJ) $(if $(CUDA_OBJ),$(B)/luoshu-rank-cuda)

# Suffix kept: a .c and a .cu may share a name.
$(B)/exec/cuda/%.c.o: exec/cuda/%.c
	@mkdir -p $(@D)
	$(call SAY,CC,$<) $(CC) $(CFLAGS) -MMD -MP -c $< -o $@
$(B)/exec/cuda/%.cu.o: exec/cuda/%.cu
	@mkdir -p $(@D)
	$(call SAY,NVCC,$<) $(NVCC) $(NVCCFLAGS) $(CUDA_CODE) -MMD -MP -MF $(@:.o=.d) -c $< -o $@
$(B)/exec/main_cuda.o $(B)/exec/cuda/%.c.o: CFLAGS += $(CUDA_CFLAGS)
# The same with a GPU: the executor of exec/cuda in the place of exec/host.
$(B)/luoshu-rank-cuda: $(B)/exec/main_cuda.o $(CUDA_OBJ) $(EXEC_LIB) $(CORE_LIB)
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) $^ $(CUDA_LIBS) -Wl,--as-needed $(EXEC_LIBS) $(CORE_LIBS) -lpthread -lm -o $@

# What make check-more builds: PTX of one architecture alone, which tests/ptx.sh makes machine code of. In a folder
# of its own, so that what is installed has all of them. make check-all builds and looks at those.
# All kernels in one unit: nvcc reads the headers of CUDA three times for each unit, which is most of its time.
# Names that two files have, each for itself, get that of the file behind them.
CUDA_ONE_SRC := $(filter %.cu,$(EXEC_CUDA_SRC))
CUDA_OWN_NAMES := EACH PAIRS ROWS THREADS run
CUDA_ONE_OBJ := $(filter %.c.o,$(CUDA_OBJ)) $(if $(CUDA_ONE_SRC),$(B)/one/exec/cuda/kernels/all.cu.o)
CUDA_ONE_RANK := $(if $(CUDA_OBJ),$(B)/one/luoshu-rank-cuda)
$(B)/one/exec/cuda/kernels/all.cu: $(CUDA_ONE_SRC) exec/cuda/cuda.mk
	@mkdir -p $(@D)
	@{ grep -h '^#include' $(CUDA_ONE_SRC) | LC_ALL=C sort -u; \
	$(foreach f,$(CUDA_ONE_SRC),$(foreach n,$(CUDA_OWN_NAMES),echo '#define $(n) $(n)_$(basename $(notdir $(f)))';) \
	    echo '#include "$(f)"';$(foreach n,$(CUDA_OWN_NAMES),echo '#undef $(n)';)) } >$@
$(B)/one/exec/cuda/kernels/all.cu.o: $(B)/one/exec/cuda/kernels/all.cu
	$(call SAY,NVCC,$<) $(NVCC) $(NVCCFLAGS) $(CUDA_PTX_CODE) -MMD -MP -MF $(@:.o=.d) -c $< -o $@
$(B)/one/luoshu-rank-cuda: $(B)/exec/main_cuda.o $(CUDA_ONE_OBJ) $(EXEC_LIB) $(CORE_LIB)
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) $^ $(CUDA_LIBS) -Wl,--as-needed $(EXEC_LIBS) $(CORE_LIBS) -lpthread -lm -o $@
