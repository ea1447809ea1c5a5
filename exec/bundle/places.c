/* places.c: libluoplaces.so, which make.sh puts before Open MPI. Open MPI, PMIx, hwloc
 * look for their parts where they were installed; this says where the bundle lies now, before
 * anything of them runs, to mpirun, to the ranks and to a test that is a process of its own. The
 * folder is that of this library's own file. What the environment says of another Open MPI (images
 * of PyTorch have one) is overruled. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From the folder of this library. */
static const struct {
    const char *variable, *place;
} places[] = {
    {"OPAL_PREFIX", "/.."},
    {"OPAL_BINDIR", "/../bin"},
    {"OPAL_LIBDIR", ""},
    {"OPAL_PKGLIBDIR", "/openmpi"},
    {"OPAL_DATADIR", "/../share"},
    {"OPAL_PKGDATADIR", "/../share/openmpi"},
    {"OPAL_SYSCONFDIR", "/../share/openmpi"},
    {"PMIX_PREFIX", "/.."},
    {"PMIX_LIBDIR", ""},
    {"PMIX_PKGLIBDIR", "/pmix"},
    {"PMIX_DATADIR", "/../share"},
    {"PMIX_PKGDATADIR", "/../share/pmix"},
    {"PMIX_SYSCONFDIR", "/../share/pmix"},
    {"HWLOC_PLUGINS_PATH", "/hwloc"}, /* there are none, and others do not fit */
};

/* A constructor cannot fail: where it finds no place, Open MPI says that its parts are missing. */
__attribute__((constructor)) static void say_places(void)
{
    char here[PATH_MAX], path[PATH_MAX + 64];
    Dl_info info;
    if (dladdr(&places, &info) == 0 || !info.dli_fname || !realpath(info.dli_fname, here)) return;
    *strrchr(here, '/') = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s%s", here, places[i].place);
        setenv(places[i].variable, path, 1);
    }
    /* A process that no mpirun started needs no helper for what it will not do: to start others. */
    setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
}
