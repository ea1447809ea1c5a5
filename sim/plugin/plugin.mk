# sim/plugin/plugin.mk: luoshu-sim.so, what needs SimGrid, which the command loads once it simulates; part of the Makefile.
PLUGIN := $(B)/luoshu-sim.so
PLUGIN_OBJ := $(call obj,$(filter-out sim/step/death.c,$(filter sim/step/%,$(SIM_SRC))) sim/plugin/stamp.c $(SIM_CXX))
# What it and the command exchange lies as headers and flags have it: both say of which they are. Remade when it changes.
SIM_STAMP := $(firstword $(shell cat $(sort $(wildcard core/*/*.h core/*/*/*.h sim/*.h sim/*/*.h)) | sha256sum))
$(B)/sim/plugin/loaded.o $(B)/sim/plugin/stamp.o: CFLAGS += -DSIM_STAMP='"$(SIM_STAMP) $(BUILD_FLAGS)"'
$(B)/sim/plugin/loaded.o $(B)/sim/plugin/stamp.o: $(B)/gen/sim_stamp
$(B)/gen/sim_stamp: FORCE
	@mkdir -p $(@D)
	@echo '$(SIM_STAMP) $(BUILD_FLAGS)' | cmp -s - $@ || echo '$(SIM_STAMP) $(BUILD_FLAGS)' > $@
# What of the command it calls: options of the linker that keep it and show it.
PLUGIN_NEEDS := $(B)/gen/sim_needs
# SIM_INSIDE=1 links the simulator into the command: one file for those who exchange objects in it (tests/mutate.sh).
SIM_INSIDE ?=
# What the command links of this: objects before the archives, the options, libraries.
BIN_SIM := $(if $(SIM_INSIDE),,$(B)/sim/plugin/loaded.o)
BIN_NEEDS := $(if $(SIM_INSIDE),,$(PLUGIN_NEEDS))
BIN_LIBS := $(if $(SIM_INSIDE),$(SIM_LIBS)) $(CORE_LIBS) -lm
$(BIN): $(if $(SIM_INSIDE),,$(PLUGIN))

$(PLUGIN_OBJ): sim/plugin/plugin.mk
$(PLUGIN): $(PLUGIN_OBJ)
	$(call SAY,LD,$@) $(CC) $(LDFLAGS) -shared $^ $(SIM_LIBS) -lm -o $@
$(PLUGIN_OBJ): CFLAGS += -fPIC -fvisibility=hidden
# Inline parts of SimGrid are one with those of its library: shown.
$(PLUGIN_OBJ): CXXFLAGS += -fPIC
$(B)/gen/sim_needs: $(PLUGIN_OBJ)
	@mkdir -p $(@D)
	@nm -u $^ | awk '$$1 == "U" && $$2 ~ /^(luo|sim)_/ {print $$2}' | sort -u >$@.tmp
	@nm --defined-only $^ | awk 'NF == 3 {print $$3}' | sort -u | comm -23 $@.tmp - | \
	    sed 's/.*/-Wl,-u,&,--export-dynamic-symbol=&/' >$@ && rm $@.tmp
