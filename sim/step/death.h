/* death.h: why a simulator process, or a step, has died, in one sentence. */
#ifndef LUO_SIM_STEP_DEATH_H
#define LUO_SIM_STEP_DEATH_H
#include <stddef.h>
#include <stdint.h>

enum { SIM_DEATH_TEXT = 800 };

/* how: as waitpid gives it. log: what the process wrote to stderr; of it SimGrid's reason for
 * giving up, else the last line, is told. */
void sim_death_text(int how, const char *log, char text[SIM_DEATH_TEXT]);
/* What is said of a step that a device has ended. */
void sim_failure_text(char *text, size_t size, int32_t device);
#endif
