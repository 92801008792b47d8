/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of a capture's guest: see capture-private.h
 */

#include <stdlib.h>

#include "drain/capture-private.h"
#include "lib/internal/sideband.h"

const char *capture_no_names(const struct btrail_capture *c)
{
    return c->scanner ? NULL : c->options.names ? c->names.why :
           "no names are looked for in what is recorded now; start a session "
           "with them when no other one is active";
}

void capture_names_known(struct btrail_capture *c)
{
    unsigned i;

    c->names_known = true;
    for (i = 0; i < c->sessions->len; i++) {
        btrail_session_names(session_at(c, i), capture_no_names(c));
    }
}

/* The same look for those who see nothing of the kernel */
static void tell_users(struct btrail_capture *c,
                       const struct btrail_found *found)
{
    struct btrail_sideband_info info = { .kind = found->kind };
    struct btrail_buf payload = { 0 };
    void *data = NULL;
    size_t size;
    unsigned i;

    for (i = 0; i < c->sessions->len; i++) {
        struct btrail_session *s = session_at(c, i);

        if (btrail_session_sees(s, BTRAIL_PRIVILEGE_KERNEL)) {
            continue;
        }
        if (!data) {
            if (btrail_snapshot_encode_user(found->snapshot, c->key, &data, &size)) {
                return;
            }
            info.size = (uint32_t)size;
            info.time = found->snapshot->end;
            btrail_sideband_pack(&info, data, &payload);
        }
        btrail_session_sideband(s, found->kind, payload.data, payload.len);
    }
    free(data);
    btrail_buf_free(&payload);
}

/* So that entries have names for those who do not see symbols; for triggers */
static void learn_symbols(struct btrail_capture *c, const GPtrArray *to,
                          const struct btrail_found *found)
{
    struct btrail_sideband_info info;
    void *text;
    unsigned i;

    if (btrail_sideband_unpack(found->payload, found->size, &info, &text)) {
        return;
    }
    btrail_entries_symbols(c->entries, text, info.size);
    for (i = 0; i < to->len; i++) {
        struct btrail_session *s = g_ptr_array_index(to, i);

        if (btrail_session_wants_symbols(s)) {
            btrail_session_symbols(s, text, info.size);
        }
    }
    free(text);
}

static void tell_names(struct btrail_capture *c, const GPtrArray *to,
                       const struct btrail_found *found)
{
    uint32_t sees = found->kind == BTRAIL_SIDEBAND_IMAGE ?
                    BTRAIL_PRIVILEGE_USER : BTRAIL_PRIVILEGE_KERNEL;
    bool learn = false;
    unsigned i;

    for (i = 0; i < to->len; i++) {
        struct btrail_session *s = g_ptr_array_index(to, i);

        if (found->snapshot) {
            btrail_session_snapshot(s, found->snapshot);
        }
        if (btrail_session_sees(s, sees)) {
            btrail_session_sideband(s, found->kind, found->payload,
                                    found->size);
        } else {
            learn = true;
        }
        learn |= btrail_session_wants_symbols(s);
    }
    if (learn && found->kind == BTRAIL_SIDEBAND_SYMBOLS) {
        learn_symbols(c, to, found);
    }
}

/*
 * Where triggers are to act.  Files may be read for it, so it is done without
 * the lock, for which others would wait; triggers may outlive their sessions by
 * as long as it takes.
 */
static void find_places(struct btrail_capture *c,
                        const struct btrail_found *found)
{
    g_autoptr(GPtrArray) triggers = g_ptr_array_new_with_free_func(
        (GDestroyNotify)btrail_triggers_unref);
    unsigned i;

    g_mutex_lock(&c->lock);
    for (i = 0; i < c->sessions->len; i++) {
        struct btrail_triggers *t = btrail_session_triggers(session_at(c, i));

        if (t) {
            g_ptr_array_add(triggers, t);
        }
    }
    g_mutex_unlock(&c->lock);
    for (i = 0; i < triggers->len; i++) {
        btrail_triggers_find(g_ptr_array_index(triggers, i), found->snapshot,
                             found->memory, found->levels);
    }
}

/* What the scanner has found, in its thread */
static void got_names(void *opaque, const struct btrail_found *found)
{
    struct btrail_capture *c = opaque;

    if (found->snapshot) {
        find_places(c, found);
    }
    g_mutex_lock(&c->lock);
    if (found->payload) {
        tell_names(c, found->again ? c->telling : c->sessions, found);
        if (found->snapshot) {
            tell_users(c, found);
        }
    } else {
        GPtrArray *empty = c->telling;

        g_ptr_array_set_size(empty, 0);
        if (found->again) {
            c->telling = c->late;
            c->late = empty;
        }
    }
    g_mutex_unlock(&c->lock);
}

void capture_take_memory(struct btrail_capture *c)
{
    struct guest_memory_files *m =
        btrail_connection_take_memory(c->connection);

    g_clear_pointer(&c->names.why, g_free);
    switch (m->reason) {
    case BTRAIL_MEMORY_SHARED:
        c->scanner = btrail_scanner_new(m, c->options.patient, c->options.limit,
                                      got_names, c);
        capture_names_known(c);
        return;
    case BTRAIL_MEMORY_PRIVATE:
        c->names.why = g_strdup(
            "the guest's RAM is private to QEMU; start it with -object "
            "memory-backend-memfd,id=ram,size=SIZE,share=on and -machine "
            "memory-backend=ram, where SIZE is that of -m");
        break;
    default:
        c->names.why = g_strdup("QEMU could not share the guest's RAM");
        break;
    }
    guest_memory_files_free(m);
    capture_names_known(c);
}
