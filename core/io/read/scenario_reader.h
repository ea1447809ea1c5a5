/* scenario_reader.h: what the parts of the scenario reader share. */
#ifndef LUO_CORE_IO_READ_SCENARIO_READER_H
#define LUO_CORE_IO_READ_SCENARIO_READER_H
#include "core/io/document/nested.h"
#include "core/io/read/read.h"
#include "core/io/read/scenario_yaml.h"

typedef struct luo_scenario_reader {
    luo_doc doc;
    luo_files recorder; /* gives files and notes their names and hashes */
    const luo_files *inner;
    luo_inputs *inputs;
    const luo_overrides *overrides;
    const luo_scenario_yaml *y;
    luo_scenario *sc;
    luo_cluster *cluster; /* NULL: not readable */
    luo_model *model;
    luo_plan *plan; /* the one read last */
    luo_lengths table; /* of lengths, the one read last */
    luo_event *events;
    int32_t nevents, own_events; /* with those of traces; of the file itself */
    uint32_t row;                /* of the list whose file is being read */
    luo_named_hash *files;
    int32_t nfiles;
} luo_scenario_reader;

typedef luo_status luo_scenario_read_fn(luo_scenario_reader *r, const luo_source *src);
/* Reads the file that `node` names with fn. what ("cluster") goes into messages, name into the
 * hash. False: an error, already reported. */
bool luo_scenario_file(luo_scenario_reader *reader, const luo_doc_node *node, const char *what,
                       const char *name, luo_scenario_read_fn *fn);

/* The lists of the file into reader->sc (scenario_lists.c). Pre: the file passed its checks. */
void luo_scenario_take_events(luo_scenario_reader *reader);
void luo_scenario_take_processes(luo_scenario_reader *reader);
void luo_scenario_take_policies(luo_scenario_reader *reader);
/* The same of `jobs`, with the policies that run them (scenario_jobs.c). */
void luo_scenario_take_jobs(luo_scenario_reader *reader);
/* A model file, with what `--set model.PATH=VALUE` says, into reader->model. */
luo_scenario_read_fn luo_scenario_read_model;
/* Plan file at node, checked against cluster and model; NULL: an error, already reported. */
const luo_plan *luo_scenario_take_plan(luo_scenario_reader *reader, const luo_doc_node *node,
                                       const char *name);
#endif
