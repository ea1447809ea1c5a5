/* The parser of options against the table of every verb, whose help is printed from the same rows:
 * each row is taken as it is shown, and in no other way. What the command prints of it:
 * tests/golden/usage.sh. */
#include "cli/cli.h"
#include "core/base/words.h"
#include "tests/check_main.h"

enum { VERBS = 22 };

static const luo_verb *verb;

static luo_status parse(int argc, const char *const *words, luo_args *args, luo_err *err)
{
    static char text[2][128]; /* values point into it */
    char *argv[2] = {text[0], text[1]};
    for (int i = 0; i < argc; i++) snprintf(text[i], sizeof text[i], "%s", words[i]);
    *err = (luo_err){0};
    return luo_args_parse(argc, argv, verb->options, verb->noptions, luo_common_options,
                          luo_ncommon_options, args, err);
}

static void refused(int argc, const char *const *words, const char *sentence)
{
    luo_args args;
    luo_err err;
    ck_assert_int_eq(parse(argc, words, &args, &err), LUO_EUSAGE);
    ck_assert_msg(strstr(err.text, sentence), "%s %s: %s", verb->name, words[0], err.text);
}

static void taken(int argc, const char *const *words, const luo_option *option, const char *value)
{
    luo_args args;
    luo_err err;
    ck_assert_msg(parse(argc, words, &args, &err) == LUO_OK, "%s: %s", verb->name, err.text);
    ck_assert_int_eq(args.nset, 1);
    ck_assert_int_eq(args.nfiles, 0);
    ck_assert_ptr_eq(args.set[0].option, option);
    ck_assert_str_eq(luo_args_get(&args, option->name, "none"), value);
}

static void check_option(const luo_option *option)
{
    char name[64], with[64];
    snprintf(name, sizeof name, "--%s", option->name);
    snprintf(with, sizeof with, "--%s=7", option->name);
    if (!option->value) {
        taken(1, (const char *[]){name}, option, "");
        refused(1, (const char *[]){with}, "takes no value; leave out `=7`");
        return;
    }
    taken(1, (const char *[]){with}, option, "7");
    taken(2, (const char *[]){name, "7"}, option, "7");
    taken(2, (const char *[]){name, "--"}, option, "--");
    refused(1, (const char *[]){name}, "has no value; give");
}

START_TEST(options)
{
    verb = &luo_verbs[_i];
    for (int i = 0; i < verb->noptions; i++) check_option(&verb->options[i]);
    for (int i = 0; i < luo_ncommon_options; i++) check_option(&luo_common_options[i]);
}
END_TEST

/* A name stands once for a verb, so that no row hides another. */
START_TEST(names)
{
    verb = &luo_verbs[_i];
    for (int i = 0; i < verb->noptions; i++) {
        for (int k = 0; k < i; k++) ck_assert_str_ne(verb->options[i].name, verb->options[k].name);
        for (int k = 0; k < luo_ncommon_options; k++)
            ck_assert_str_ne(verb->options[i].name, luo_common_options[k].name);
    }
}
END_TEST

/* Names that are meant by a word: other tools' words, slips, other units, beginnings. */
START_TEST(meant)
{
    static const char *const known[] = {
        "global-batch-size", "seq-length", "trace-steps", "slowdown",  "at_s",
        "at_step",           "latency_us", "lookup",      "lookahead", "bandwidth_gbytes_per_s"};
    static const struct {
        const char *word, *want;
    } rows[] = {{"gbs", "global-batch-size"},
                {"seq-len", "seq-length"},
                {"trace", "trace-steps"},
                {"factor", "slowdown"},
                {"at", "at_s"},
                {"latency", "latency_us"},
                {"bandwidth_gbps", "bandwidth_gbytes_per_s"},
                {"slodown", "slowdown"},
                {"global-batch-size-of-all", "global-batch-size"},
                {"loo", NULL},
                {"x", NULL},
                {"tr", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *got = luo_word_nearest(rows[i].word, known, sizeof known / sizeof *known);
        ck_assert_msg(got == rows[i].want ||
                          (got && rows[i].want && strcmp(got, rows[i].want) == 0),
                      "%s: %s", rows[i].word, got ? got : "none");
    }
}
END_TEST

START_TEST(others)
{
    ck_assert_int_eq(luo_nverbs, VERBS);
    luo_args args;
    luo_err err;
    verb = luo_verb_find("sim");
    refused(1, (const char *[]){"--no-such-option"}, "unknown option `--no-such-option`; `--help`");
    refused(1, (const char *[]){"--sead=3"}, "unknown option `--sead`; did you mean `--seed`?");
    refused(1, (const char *[]){"-o"}, "`-o` is no option; options are long: `--name`.");
    ck_assert_int_eq(parse(2, (const char *[]){"--", "--seed"}, &args, &err), LUO_OK);
    ck_assert_int_eq(args.nset, 0);
    ck_assert_str_eq(args.files[0], "--seed");
    ck_assert_int_eq(parse(2, (const char *[]){"-", "-h"}, &args, &err), LUO_OK);
    ck_assert_str_eq(args.files[0], "-");
    ck_assert(luo_args_has(&args, "help"));
}
END_TEST

LUO_SUITE("args", LUO_T_N(options, VERBS), LUO_T_N(names, VERBS), LUO_T(meant), LUO_T(others))
