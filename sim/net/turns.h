/* turns.h: devices that may not be simulated as one, since others meet them by turns. */
#ifndef LUO_SIM_NET_TURNS_H
#define LUO_SIM_NET_TURNS_H
#include "sim/net/net.h"

/* Has some device several calls of an exchange in a segment? They lie at different dates, and so do
 * those of the devices it meets. Errors: LUO_ENOMEM. */
luo_status sim_turns_any(const luo_programs *set, bool *any);
/* A class of several devices issues calls of all of them by one instruction, so that their groups
 * become one rendezvous. That is what the devices do as long as every class that takes part in the
 * rendezvous takes part in all of its groups, by one instruction each; else its groups meet at
 * different dates, and classes could wait for each other in a circle where devices do not. Members
 * of such classes become `single`, by program. any: there are new ones.
 * Pre: net->classes are laid out. Errors: LUO_ENOMEM. See: tests/diff/diff_sim_fold.c. */
luo_status sim_turns_untie(const sim_net *net, bool *single, bool *any);
#endif
