/* A session that finds its host by a socket in a directory that it is shown.  Internal to dial.c, wall.c and session.c. */
#pragma once
#include <stdbool.h>

#include "wire/wire.h"

/* argv: the program's absolute path, "dial" with what is added by '+', the directory; what follows is for whoever looks at the
 * process. */
bool dial_is_wanted(int argc, char **argv);
int dial_main(char **argv, char **env);

/* Dials until there is a control connection: at once, or after the last one ended. */
void dial_now(void);
void dial_again(void);
/* The host greeted: the next loss is a new one. */
void dial_greeted(void);
void dial_timer(void);
/* A new guest channel. */
void dial_channel(const struct wire_come *m);

/* Capabilities that what the guest starts keeps; 0 but where a profile says so. */
extern bool guest_keeps_caps;

/* What the host wrote at this path about the guest's mounts; 0, or the exit status that says what is wrong. */
int check_mounts(const char *path);

void wall_build(bool allow_setgid, bool keep_caps);
