/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the service share
 *
 * service.c has its life, what guests ask of it and the limits of all,
 * service-connection.c the socket and the connections of devices, and
 * service-state.c what one process leaves to the next.
 */

#ifndef BTRAIL_SERVICE_PRIVATE_H
#define BTRAIL_SERVICE_PRIVATE_H

#include <sys/types.h>

#include "service/folder.h"
#include "service/guest.h"
#include "service/service.h"

struct connection {
    struct btrail_service *service;
    int pid;
    unsigned uid;
    int sock;                       /* until it is known what it is */
    guint readable, timeout;
    struct btrail_control *control;
    struct btrail_guest *guest;     /* NULL before it has said */
};

struct btrail_service {
    struct btrail_config *config;
    struct btrail_symbol_files files;
    struct btrail_folder *folder;
    struct btrail_cpu_pool *cpu;
    char *state_path;
    int lock;                       /* of the state */
    int sock, sock_lock;
    dev_t sock_dev;                 /* what was bound, 0 before */
    ino_t sock_ino;
    guint accepting, ticking, saving, sweeping, leaving;
    GPtrArray *new;                 /* of struct connection */
    GPtrArray *connections;         /* of struct connection: control */
    GPtrArray *guests;              /* of struct btrail_guest */
    GPtrArray *left;                /* of struct btrail_state_capture */
    struct btrail_usage all;        /* as of the last tick */
    bool ending;
    void (*ended)(void *opaque);
    void *opaque;
};

static inline struct btrail_guest *guest_at(struct btrail_service *s,
                                            unsigned i)
{
    return g_ptr_array_index(s->guests, i);
}

/*
 * Guests
 */

/* Of those that it makes; opaque is the service. */
extern const struct btrail_guest_host service_guest_host;

bool service_is_connected(struct btrail_service *s,
                          const struct btrail_guest *g);

/* Has a guest this capture, or looks at what was left of it? */
bool service_has_capture(struct btrail_service *s, const char *capture);

/* The guest with this capture, which may be NULL, that is not connected */
struct btrail_guest *service_find_capture(struct btrail_service *s,
                                          const char *capture);

/* Once nothing else is to be done, see who is gone, and whether all is done. */
void service_sweep_later(struct btrail_service *s);

/* Have the state saved; @opaque is the service. */
void service_changed(void *opaque);

/*
 * Connections
 */

bool service_listen(struct btrail_service *s, GError **error);
/* Take nobody any more.  Nothing happens if it does not listen. */
void service_hush(struct btrail_service *s);
void service_connection_free(struct connection *c);

/*
 * What one process leaves to the next
 */

/*
 * Have a file to oneself as long as it is open, which is made; @what says what
 * another process does that has it: "runs with".  -1 on failure
 */
int service_lock(const char *path, const char *what, const char *of,
                 GError **error);

/* One process for a state folder, and so for its sessions */
bool service_lock_state(struct btrail_service *s, GError **error);

void service_read_state(struct btrail_service *s);

/* A source's function; @opaque is the service. */
gboolean service_save(gpointer opaque);

/* What was left of this guest's @capture, or NULL */
struct btrail_state_capture *
service_find_left(struct btrail_service *s, struct btrail_guest *g,
                  const char *capture);

/* One of this name is not left any more, if it was: it goes on, or is over. */
void service_take_left(struct btrail_service *s, const char *name);

/* A source's function: who has not come again is gone.  @opaque: the service */
gboolean service_left_alone(gpointer opaque);

/* What was left of this guest and is not active any more is over. */
void service_forget_left(struct btrail_service *s, struct btrail_guest *g,
                         const char *capture);

#endif /* BTRAIL_SERVICE_PRIVATE_H */
