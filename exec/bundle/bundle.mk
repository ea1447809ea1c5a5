# exec/bundle/bundle.mk: one folder with all that a bare GPU machine lacks, part of the Makefile.
# Code for one type of GPU alone, built in a folder of its own: `make` finds everything as it was.
BUNDLE_SM ?= 90
BUNDLE_MIB ?= 45
BUNDLE_DIR ?= build/luoshu-sm_$(BUNDLE_SM)
BUNDLE_KNOWN = $(filter sm_$(BUNDLE_SM),$(shell $(NVCC) --list-gpu-code))
BUNDLE_NO = $(or $(NO_CUDA),$(if $(BUNDLE_KNOWN),,no sm_$(BUNDLE_SM) in nvcc))
# For tests/bundle.sh: the rank program on the stand-in, but for NCCL, of which it has what a bare machine has.
BUNDLE_BARE := $(B)/bundle/luoshu-rank-cuda
BUNDLE_PARTS := $(B)/bundle/libluoplaces.so $(B)/bundle/libnccl.so.2

.PHONY: bundle bundle-parts
bundle: ## a folder and a .tar.xz to carry to a machine with GPUs: programs and all libraries, for sm BUNDLE_SM (90)
	@no='$(BUNDLE_NO)'; [ -z "$$no" ] || { echo "make bundle: it needs the cuda backend, which this build lacks ($$no)."; exit 1; }
	@./tests/deps.sh build bundle
	@$(MAKE) --no-print-directory -j$$(nproc) B=build/bundle-sm_$(BUNDLE_SM) CUDA_ARCH=$(BUNDLE_SM) CUDA_PTX= LINK= \
	    gpu-programs bundle-parts
	@b=build/bundle-sm_$(BUNDLE_SM); ./exec/bundle/make.sh $(BUNDLE_DIR) $$b $$b/luoshu-rank-cuda $$b/gpu/tests
	@./exec/bundle/pack.sh $(BUNDLE_DIR) $(BUNDLE_MIB)

bundle-parts: $(BUNDLE_PARTS)
$(B)/bundle/libluoplaces.so: exec/bundle/places.c
	@mkdir -p $(@D)
	$(call SAY,LD,$@) $(CC) $(CFLAGS) -fPIC -shared -Wl,-soname,libluoplaces.so $< -o $@
$(B)/bundle/libnccl.so.2: exec/bundle/nccl_absent.c
	@mkdir -p $(@D)
	$(call SAY,LD,$@) $(CC) $(CFLAGS) -fPIC -shared -Wl,-soname,libnccl.so.2 $< -o $@
$(BUNDLE_BARE): $(B)/standin/exec/main_cuda.o $(filter-out $(B)/standin/tests/standin/nccl%,$(patsubst %,$(B)/standin/%.o,$(STANDIN_SRC:.c=))) \
    $(EXEC_LIB) $(CORE_LIB) $(B)/bundle/libnccl.so.2
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) $^ $(EXEC_LIBS) -lrt -lpthread $(CORE_LIBS) -lstdc++ -lm -o $@
