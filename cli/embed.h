/* embed.h: the demo's inputs, the figures and the report's page, built into the command. */
#ifndef LUO_CLI_EMBED_H
#define LUO_CLI_EMBED_H

typedef struct luo_embedded {
    const char *name, *text; /* name: path in the repository; the last row is {0, 0} */
} luo_embedded;

extern const luo_embedded luo_embedded_files[];
/* Style and script of report.html, in the order in which they stand. */
extern const luo_embedded luo_embedded_page[];
#endif
