/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sessions of a capture: see capture-members.h
 */

#include "drain/capture-members.h"

void capture_members_init(struct capture_members *m)
{
    g_mutex_init(&m->lock);
    m->sessions = g_ptr_array_new();
    for (unsigned i = 0; i < CAPTURE_SOURCES; i++) {
        m->late[i] = g_ptr_array_new();
        m->resending[i] = g_ptr_array_new();
    }
    g_queue_init(&m->requests);
}

void capture_members_clear(struct capture_members *m)
{
    g_ptr_array_unref(m->sessions);
    for (unsigned i = 0; i < CAPTURE_SOURCES; i++) {
        g_ptr_array_unref(m->late[i]);
        g_ptr_array_unref(m->resending[i]);
    }
    g_mutex_clear(&m->lock);
}

static void update_in_step(struct capture_members *m)
{
    m->in_step = false;
    for (unsigned i = 0; i < m->sessions->len; i++) {
        m->in_step |= session_in_step(capture_member(m, i));
    }
}

void capture_members_add(struct capture_members *m, struct session *s)
{
    g_mutex_lock(&m->lock);
    g_ptr_array_add(m->sessions, s);
    g_mutex_unlock(&m->lock);
    update_in_step(m);
}

void capture_members_remove(struct capture_members *m,
                            struct session *s)
{
    g_mutex_lock(&m->lock);
    g_ptr_array_remove(m->sessions, s);
    for (unsigned i = 0; i < CAPTURE_SOURCES; i++) {
        g_ptr_array_remove(m->late[i], s);
        g_ptr_array_remove(m->resending[i], s);
    }
    g_mutex_unlock(&m->lock);
    update_in_step(m);
}

void capture_members_add_late(struct capture_members *m, unsigned source,
                              struct session *s)
{
    g_mutex_lock(&m->lock);
    g_ptr_array_add(m->late[source], s);
    g_mutex_unlock(&m->lock);
}

bool capture_members_request(struct capture_members *m,
                             struct session *s, bool remove)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&m->lock);
    struct capture_request request = { s, remove };

    if (m->closed) {
        return false;
    }
    g_queue_push_tail(&m->requests, g_memdup2(&request, sizeof(request)));
    __atomic_store_n(&m->requested, 1, __ATOMIC_RELEASE);
    return true;
}

struct capture_request *capture_members_next(struct capture_members *m)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&m->lock);

    return g_queue_pop_head(&m->requests);
}

void capture_members_close(struct capture_members *m)
{
    g_mutex_lock(&m->lock);
    m->closed = true;
    g_mutex_unlock(&m->lock);
}
