/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What one process of the service leaves to the next: see service-private.h
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "service/log.h"
#include "service/service-private.h"

/* Guests whose devices have not come again by then are gone. */
#define LEFT_TIMEOUT_S  60

void service_take_left(struct btrail_service *s, const char *name)
{
    unsigned i;

    for (i = 0; i < s->left->len; i++) {
        struct btrail_state_capture *c = g_ptr_array_index(s->left, i);

        if (!strcmp(c->name, name)) {
            g_ptr_array_remove_index(s->left, i);
            return;
        }
    }
}

gboolean service_save(gpointer opaque)
{
    struct btrail_service *s = opaque;
    g_autoptr(GPtrArray) captures = g_ptr_array_new();
    g_autoptr(GPtrArray) own = g_ptr_array_new_with_free_func(
        (GDestroyNotify)btrail_state_capture_free);
    g_autoptr(GError) error = NULL;
    unsigned i;

    s->saving = 0;
    for (i = 0; i < s->guests->len; i++) {
        struct btrail_state_capture *c = btrail_guest_save(guest_at(s, i));

        if (c) {
            g_ptr_array_add(own, c);
        }
        if (c && c->sessions->len) {
            g_ptr_array_add(captures, c);
            service_take_left(s, c->name);
        }
    }
    for (i = 0; i < s->left->len; i++) {
        g_ptr_array_add(captures, g_ptr_array_index(s->left, i));
    }
    if (!btrail_state_write(s->state_path, captures, &error)) {
        btrail_log(BTRAIL_LOG_ERROR, "sessions will be lost when this service "
                   "is restarted: %s", error->message);
    }
    return G_SOURCE_REMOVE;
}

void service_forget_left(struct btrail_service *s, struct btrail_guest *g,
                         const char *capture)
{
    g_autofree char *folder =
        g_path_get_basename(btrail_guest_folder(g)->path);
    unsigned i;

    for (i = 0; i < s->left->len; ) {
        struct btrail_state_capture *c = g_ptr_array_index(s->left, i);

        if (!strcmp(c->folder, folder) && g_strcmp0(c->name, capture) &&
            !service_has_capture(s, c->name)) {
            btrail_guest_complete(btrail_guest_folder(g), c);
            g_ptr_array_remove_index(s->left, i);
            service_changed(s);
        } else {
            i++;
        }
    }
}

struct btrail_state_capture *
service_find_left(struct btrail_service *s, struct btrail_guest *g,
                  const char *capture)
{
    g_autofree char *folder =
        g_path_get_basename(btrail_guest_folder(g)->path);
    unsigned i;

    for (i = 0; capture && i < s->left->len; i++) {
        struct btrail_state_capture *c = g_ptr_array_index(s->left, i);

        if (!strcmp(c->name, capture) && !strcmp(c->folder, folder)) {
            return c;
        }
    }
    return NULL;
}

int service_lock(const char *path, const char *what, const char *of,
                 GError **error)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0) {
        btrail_daemon_fail_errno(error, "%s", path);
        return -1;
    }
    if (!flock(fd, LOCK_EX | LOCK_NB)) {
        return fd;
    }
    if (errno == EWOULDBLOCK) {
        btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_CONFIG,
                           "another backtraild %s %s", what, of);
    } else {
        btrail_daemon_fail_errno(error, "%s", path);
    }
    close(fd);
    return -1;
}

bool service_lock_state(struct btrail_service *s, GError **error)
{
    g_autofree char *path = g_build_filename(s->config->state, "lock", NULL);

    if (g_mkdir_with_parents(s->config->state, 0700) < 0) {
        return btrail_daemon_fail_errno(error, "%s", s->config->state);
    }
    s->lock = service_lock(path, "runs with", s->config->state, error);
    return s->lock >= 0;
}

/* Devices come again within a second, but to look at a trace can take long. */
gboolean service_left_alone(gpointer opaque)
{
    struct btrail_service *s = opaque;
    unsigned i;

    for (i = 0; i < s->left->len; ) {
        struct btrail_state_capture *c = g_ptr_array_index(s->left, i);
        g_autofree char *path = g_build_filename(s->folder->path, c->folder,
                                                 NULL);
        struct btrail_folder *folder;

        if (service_has_capture(s, c->name)) {
            i++;
            continue;
        }
        folder = btrail_folder_open(path, NULL);
        if (folder) {
            btrail_guest_complete(folder, c);
            btrail_folder_free(folder);
        }
        g_ptr_array_remove_index(s->left, i);
        service_changed(s);
    }
    if (s->left->len) {
        return G_SOURCE_CONTINUE;
    }
    s->leaving = 0;
    return G_SOURCE_REMOVE;
}

void service_read_state(struct btrail_service *s)
{
    g_autoptr(GError) error = NULL;

    s->state_path = g_build_filename(s->config->state, "sessions.json", NULL);
    s->left = btrail_state_read(s->state_path, &error);
    if (!s->left) {
        btrail_log(BTRAIL_LOG_ERROR, "sessions of before do not go on: %s",
                   error->message);
        s->left = g_ptr_array_new_with_free_func(
            (GDestroyNotify)btrail_state_capture_free);
    }
    if (s->left->len) {
        btrail_log(BTRAIL_LOG_INFO, "%u guests were being traced; their "
                   "sessions go on as they connect", s->left->len);
        s->leaving = g_timeout_add_seconds(LEFT_TIMEOUT_S, service_left_alone,
                                           s);
    }
}
