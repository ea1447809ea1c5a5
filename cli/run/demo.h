/* demo.h: the part of the demo that runs for real. */
#ifndef LUO_CLI_RUN_DEMO_H
#define LUO_CLI_RUN_DEMO_H
#include "cli/cli.h"

/* Measures this machine, simulates the demo's small plan on it, runs it on eight ranks and puts
 * both beside each other: commands that a user could type, each in a process of its own, shown as
 * they are run. dir: of the demo, whose inputs are there; results go to dir/real. What this machine
 * cannot do is told in a note and is no error of the demo. */
luo_status luo_demo_real(luo_cli *cli, const char *dir);
#endif
