/* clicks_read.h: click logs (docs/embeddings.md#samples-of-a-file). */
#ifndef LUO_CORE_IO_CLICKS_CLICKS_READ_H
#define LUO_CORE_IO_CLICKS_CLICKS_READ_H
#include "core/io/io.h"
#include "core/sync/embed/clicks.h"

/* keys: a sample a line, whole numbers with commas between them, no header. criteo: of the Criteo
 * data sets, 40 cells with tabs between them, of which the last 26 are hashed. avazu: of the Avazu
 * data set, a CSV file with a header, of which all columns but `id` and `click` are hashed. */
#define LUO_CLICKS_FORM_LIST(X)                                                                    \
    X(LUO_CLICKS_KEYS, "keys") X(LUO_CLICKS_CRITEO, "criteo") X(LUO_CLICKS_AVAZU, "avazu")
typedef enum luo_clicks_form {
    LUO_CLICKS_FORM_LIST(LUO_WORD_VALUE) LUO_CLICKS_FORMS
} luo_clicks_form;
const char *luo_clicks_form_name(luo_clicks_form form);

/* A hashed key is FNV-1a of the number of its slot, as a byte, and its text, without the lowest
 * bit; an empty cell is a text like any other. It differs from slot to slot, so that equal texts of
 * two slots are two embeddings.
 * Errors: LUO_EINPUT with line and cell; LUO_E2BIG more than 2^31 - 1 samples or keys; LUO_ENOMEM.
 * Owner: arena. Cost: O(file). */
luo_status luo_clicks_read(luo_arena *arena, const char *path, luo_clicks_form form,
                           luo_clicks *out, luo_diags *diags);
#endif
