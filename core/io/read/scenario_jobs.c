/* scenario_jobs.c: the jobs of a scenario, and the policies by which they are run. */
#include <stdio.h>
#include <string.h>

#include "core/io/document/names.h"
#include "core/io/read/read.h"
#include "core/io/read/scenario_reader.h"

static void take_job(luo_scenario_reader *reader, luo_job_spec *spec, const luo_job_yaml *yaml,
                     const luo_doc_node *at)
{
    const luo_doc_node *plan = luo_doc_get(at, "plan");
    const bool own = luo_doc_get(at, "steps") || luo_doc_get(at, "duration_s");
    char name[40];
    *spec = (luo_job_spec){.name = yaml->name,
                           .start_s = yaml->start_s,
                           .steps = own ? yaml->steps : reader->y->extent.steps,
                           .duration_s = own ? yaml->duration_s : reader->y->extent.duration_s};
    if (luo_name_fault_of_run(yaml->name))
        luo_doc_error(&reader->doc, luo_doc_get(at, "name"), "`name` is `%.60s`; %s.", yaml->name,
                      luo_name_fault_of_run(yaml->name));
    reader->model = NULL;
    snprintf(name, sizeof name, "jobs.%u.model", reader->row);
    luo_scenario_file(reader, luo_doc_get(at, "model"), "model", name, luo_scenario_read_model);
    snprintf(name, sizeof name, "jobs.%u.plan", reader->row);
    spec->plan = luo_scenario_take_plan(reader, plan, name);
    spec->model = reader->model;
}

/* Two jobs on one device would take turns on it, which is not simulated. */
static void check_devices(luo_scenario_reader *reader, const luo_job_spec *jobs, int32_t n)
{
    const luo_doc_node *list = luo_doc_get(reader->doc.root, "jobs");
    int32_t *owner = LUO_NEW_N(reader->doc.arena, int32_t, reader->cluster->ndevices), *dev, count;
    luo_err err;
    for (int32_t i = 0; i < n; i++) {
        if (!owner || luo_plan_devices(reader->doc.arena, jobs[i].plan, &dev, &count, &err)) {
            luo_doc_nomem(&reader->doc);
            return;
        }
        for (int32_t k = 0; k < count; k++) {
            const luo_doc_node *plan = luo_doc_get(luo_doc_nth(list, i), "plan");
            if (luo_cluster_profile(reader->cluster, dev[k])->cpu) {
                luo_doc_error(&reader->doc, plan,
                              "device %d of job `%s` is of kind `cpu`, whose cores jobs would "
                              "share; devices of kind `gpu` are expected.",
                              dev[k], jobs[i].name);
                return;
            }
            if (owner[dev[k]] > 0) {
                luo_doc_error(&reader->doc, plan,
                              "device %d is in the plans of job `%s` and of job `%s`; each device "
                              "belongs to one job.",
                              dev[k], jobs[owner[dev[k]] - 1].name, jobs[i].name);
                return;
            }
            owner[dev[k]] = i + 1;
        }
    }
}

/* Of each job: beside the others, and alone. */
static void make_policies(luo_scenario_reader *reader, const luo_job_spec *jobs, int32_t n)
{
    const luo_doc_node *at = luo_doc_get(reader->doc.root, "jobs")->first;
    luo_policy_spec *spec = LUO_NEW_N(reader->doc.arena, luo_policy_spec, 2 * (int64_t)n);
    for (int32_t i = 0; spec && i < n; i++, at = at->next)
        for (int32_t alone = 0; alone < 2; alone++) {
            luo_policy_spec *policy = &spec[2 * i + alone];
            luo_read_policy_defaults(policy, "static");
            policy->label = alone ? luo_arena_printf(reader->doc.arena, "%s-alone", jobs[i].name)
                                  : jobs[i].name;
            policy->plan = jobs[i].plan;
            policy->job = i + 1;
            policy->alone = alone;
            policy->line = at->line;
            policy->col = at->col;
            if (!policy->label) luo_doc_nomem(&reader->doc);
        }
    if (!spec) luo_doc_nomem(&reader->doc);
    reader->sc->policies = spec;
    reader->sc->npolicies = 2 * n;
}

/* `a` beside `a-alone` would be two runs of that name. */
static void check_names(luo_scenario_reader *reader)
{
    const luo_doc_node *list = luo_doc_get(reader->doc.root, "jobs");
    const luo_policy_spec *spec = reader->sc->policies;
    for (int32_t i = 0; spec && i < reader->sc->npolicies; i++)
        for (int32_t k = 0; spec[i].label && k < i; k++) {
            if (!spec[k].label || strcmp(spec[k].label, spec[i].label) != 0) continue;
            luo_doc_error(&reader->doc, luo_doc_get(luo_doc_nth(list, i / 2), "name"),
                          "two runs would be called `%s`; give each job a `name` of its own.",
                          spec[i].label);
            return;
        }
}

void luo_scenario_take_jobs(luo_scenario_reader *reader)
{
    const luo_doc_node *list = luo_doc_get(reader->doc.root, "jobs"), *at = list->first;
    const int32_t n = (int32_t)reader->y->jobs_count;
    luo_job_spec *jobs = LUO_NEW_N(reader->doc.arena, luo_job_spec, n);
    if (!jobs) {
        luo_doc_nomem(&reader->doc);
        return;
    }
    if (n == 0) luo_doc_error(&reader->doc, list, "`jobs` is empty; one job or more is expected.");
    for (reader->row = 0; reader->row < reader->y->jobs_count; reader->row++, at = at->next)
        take_job(reader, &jobs[reader->row], &reader->y->jobs[reader->row], at);
    make_policies(reader, jobs, n);
    check_names(reader);
    if (reader->doc.st == LUO_OK) check_devices(reader, jobs, n);
    reader->sc->jobs = jobs;
    reader->sc->njobs = n;
    reader->sc->model = n > 0 ? jobs[0].model : NULL; /* of whoever asks for one of all */
    reader->sc->joint_steps = reader->y->joint_steps;
}
