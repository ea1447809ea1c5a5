/* profile_tables.h: tables that a profile names; for read_profile.c only. */
#ifndef LUO_CORE_IO_READ_PROFILE_TABLES_H
#define LUO_CORE_IO_READ_PROFILE_TABLES_H
#include "core/cost/profile.h"
#include "core/io/document/nested.h"
#include "core/io/read/input_tables.h"


/* Adds the calibration rows of a table to the profile; curves and transfers come out sorted.
 * Errors go to doc->st and its diags: what the table's columns ask for, the same point twice. */
void luo_profile_table(luo_doc *doc, luo_profile_table_kind kind, const luo_source *src,
                       luo_profile *profile);
#endif
