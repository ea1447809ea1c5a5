#include "sim/step/death.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { WORDS = 400 };

static void take_line(const char *at, char words[WORDS])
{
    size_t n = strcspn(at, "\n");
    while (n > 0 && strchr(" .\r", at[n - 1])) n--;
    snprintf(words, WORDS, "%.*s", (int)(n < WORDS ? n : WORDS - 1), at);
}

/* SimGrid writes `[date] place: [category/CRITICAL] reason`, and a backtrace behind it. */
static void find_words(const char *log, char words[WORDS])
{
    static const char critical[] = "/CRITICAL] ";
    const char *at = strstr(log, critical);
    words[0] = 0;
    if (at) {
        take_line(at + strlen(critical), words);
        return;
    }
    for (at = log; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strspn(at, " \t\r") < strcspn(at, "\n")) take_line(at, words);
}

void sim_death_text(int how, const char *log, char text[SIM_DEATH_TEXT])
{
    char words[WORDS], said[WORDS + 16] = "";
    find_words(log, words);
    if (words[0]) snprintf(said, sizeof said, ": %s", words);
    if (!WIFSIGNALED(how))
        snprintf(text, SIM_DEATH_TEXT, "the simulator process ended with code %d%s.",
                 WEXITSTATUS(how), said);
    else if (WTERMSIG(how) == SIGKILL)
        snprintf(text, SIM_DEATH_TEXT,
                 "the simulator process was killed (signal 9), by somebody or by the system for "
                 "want of memory; the system's log tells which. Fewer policies or devices at once "
                 "need less memory.");
    else if (WTERMSIG(how) == SIGABRT)
        snprintf(text, SIM_DEATH_TEXT,
                 "SimGrid gave the simulation up (signal 6)%s; it cannot simulate these inputs, or "
                 "luoshu asks it wrongly: please report it with the inputs.",
                 said);
    else if (WCOREDUMP(how) || WTERMSIG(how) == SIGSEGV || WTERMSIG(how) == SIGBUS ||
             WTERMSIG(how) == SIGFPE || WTERMSIG(how) == SIGILL)
        snprintf(text, SIM_DEATH_TEXT,
                 "the simulator process crashed (signal %d, %s)%s; this is a fault of luoshu or of "
                 "SimGrid: please report it with the inputs.",
                 WTERMSIG(how), strsignal(WTERMSIG(how)), said);
    else
        snprintf(text, SIM_DEATH_TEXT,
                 "the simulator process was ended from outside (signal %d, %s); it must be let "
                 "run.",
                 WTERMSIG(how), strsignal(WTERMSIG(how)));
}

void sim_failure_text(char *text, size_t size, int32_t device)
{
    snprintf(text, size, "device %d failed in the step.", device);
}
