/* names.h: what may name a folder of results, and which names a result set has for itself.
 */
#ifndef LUO_CORE_IO_DOCUMENT_NAMES_H
#define LUO_CORE_IO_DOCUMENT_NAMES_H
#include <stdbool.h>

enum { LUO_NAME_LETTERS = 64 }; /* with every suffix of ours still a name the system takes */

/* What is expected instead of a name that can be no folder's: letters, digits and _ . + -, not
 * first a . or -, LUO_NAME_LETTERS at most. NULL: it can. */
const char *luo_name_fault(const char *name);
/* The same of the folder of a run, which no name of the set itself may be. */
const char *luo_name_fault_of_run(const char *label);
/* Is this a file or folder that a result set has beside the folders of its runs? */
bool luo_name_of_set(const char *name);
/* Is this one that a run without policies (`sync`, `embed`, `moe`) has in its folder itself?
 * Others may have the name, too: luo_set_old looks inside. */
bool luo_name_of_flat(const char *name);
#endif
