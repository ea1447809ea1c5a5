#include "core/io/libraries.h"

#include <csv.h>
#include <jansson.h>
#include <zlib.h>

#define TEXT(x) #x
#define VALUE(x) TEXT(x)

const char *const luo_io_libraries = "jansson " JANSSON_VERSION ", zlib " ZLIB_VERSION
                                     ", libcsv " VALUE(CSV_MAJOR) "." VALUE(CSV_MINOR);
