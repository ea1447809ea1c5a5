/* talk.h: whole blocks over a socket. */
#ifndef LUO_SIM_TALK_H
#define LUO_SIM_TALK_H
#include <stdbool.h>
#include <stddef.h>

bool sim_send(int fd, const void *data, size_t bytes);
bool sim_receive(int fd, void *data, size_t bytes); /* false: the other side is gone */
#endif
