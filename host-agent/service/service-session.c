/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session of a guest: see guest-session.h
 */

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <glib-unix.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backtrail/words.h"
#include "service/service-session.h"
#include "util/json.h"
#include "service/leftover.h"
#include "service/log.h"
#include "lib/internal/parts.h"
#include "service/wishes.h"

/* A block of records in the making, as large as it gets */
#define BLOCK_MEMORY    (UINT64_C(4) << 20)
#define QUEUED_BLOCKS   8

struct btrail_service_session {
    struct btrail_service_session_options options;
    struct btrail_command *command;
    enum btrail_service_session_state state;
    struct btrail_session *session;     /* NULL once it is done */
    int folder;                         /* that the file is in */
    char *path;                         /* of the file, through folder */
    char *part;                         /* that it writes; NULL: mode last */
    char *ring;                         /* name in the guest's folder */
    char *why;
    bool spoilt;
    bool abandoned;                     /* nothing of it is to stay */
    bool left;                          /* to the next process */
    bool added;
    bool whole;
    bool keeping;
    gint64 started, ended;              /* g_get_real_time() */
    struct btrail_session_progress progress, past;
    uint64_t paused_ns, paused_base;
    uint64_t limited_ns, limited_base;
    bool waited_known;
    guint done_source, fired_source, duration_source;
    bool resumed;
    bool ready_told;
    bool *found;                        /* places, by trigger */
    bool is_over;                       /* no source is needed any more */
    bool finishing;                     /* a thread has session */
    unsigned dumps;                     /* threads that dump */
    unsigned refs;
};

static const char *const state_names[] = {
    [BTRAIL_SERVICE_SESSION_STARTING] = "starting",
    [BTRAIL_SERVICE_SESSION_ACTIVE] = "active",
    [BTRAIL_SERVICE_SESSION_ENDING] = "ending",
    [BTRAIL_SERVICE_SESSION_ENDED] = "ended",
    [BTRAIL_SERVICE_SESSION_FAILED] = "failed",
};

static void finish(struct btrail_service_session *s);

static void unref(struct btrail_service_session *s)
{
    if (--s->refs) {
        return;
    }
    if (s->folder >= 0) {
        close(s->folder);
    }
    json_object_unref(s->options.metadata);
    btrail_command_free(s->command);
    g_free(s->path);
    g_free(s->part);
    g_free(s->ring);
    g_free(s->why);
    g_free(s->found);
    g_free(s);
}

uint64_t btrail_service_session_memory(unsigned vcpus)
{
    return (vcpus + QUEUED_BLOCKS) * BLOCK_MEMORY;
}

static bool check_ring(const struct btrail_service_session_options *o,
                       GError **error)
{
    const struct btrail_command *c = o->command;

    if (c->last && c->size_of == BTRAIL_COMMAND_BYTES && c->size > o->ring) {
        return btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_LIMIT,
                                  "a session of mode 'last' may keep %"
                                  G_GUINT64_FORMAT " bytes at most", o->ring);
    }
    return true;
}

static bool make_ring(struct btrail_service_session *s, char **path,
                      GError **error)
{
    s->ring = g_strdup_printf(".ring-%08x%08x", g_random_int(),
                              g_random_int());
    if (mkdirat(s->options.folder->fd, s->ring, 0700) < 0) {
        btrail_daemon_fail_errno(error, "%s", s->ring);
        g_clear_pointer(&s->ring, g_free);
        return false;
    }
    *path = g_strdup_printf("/proc/self/fd/%d/%s", s->options.folder->fd,
                            s->ring);
    return true;
}

/* Nothing of it is left but what is in there and not ours. */
static void remove_ring(struct btrail_service_session *s)
{
    if (s->ring) {
        unlinkat(s->options.folder->fd, s->ring, AT_REMOVEDIR);
    }
}

static const char *last_of(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* Of a trace that goes on, what there was before stays. */
static void remove_part(struct btrail_service_session *s)
{
    if (s->part) {
        unlinkat(s->folder, last_of(s->part), 0);
    }
}

static gboolean done_readable(gint fd, GIOCondition condition, gpointer opaque)
{
    struct btrail_service_session *s = opaque;

    s->done_source = 0;
    s->is_over = true;
    finish(s);
    return G_SOURCE_REMOVE;
}

static void trigger_dumped(void *opaque, JsonObject *result,
                           const GError *error)
{
    struct btrail_service_session *s = opaque;

    if (error) {
        btrail_log(BTRAIL_LOG_WARNING, "session %s: a trigger had it dumped, "
                   "but: %s", s->command->session, error->message);
    } else {
        btrail_log(BTRAIL_LOG_INFO, "session %s: a trigger had it dumped into "
                   "%s", s->command->session,
                   json_object_get_string_member(result, "file"));
    }
}

bool btrail_service_session_is_ready(const struct btrail_service_session *s)
{
    return !s->session ||
           btrail_session_has_names(s->session) == BTRAIL_SESSION_NAMES_FINE;
}

static void log_places(struct btrail_service_session *s)
{
    unsigned i;

    for (i = 0; s->command->triggers && i < s->command->triggers->len; i++) {
        const struct btrail_command_trigger *t =
            &g_array_index(s->command->triggers,
                           struct btrail_command_trigger, i);

        if (t->symbol && !s->found[i] &&
            btrail_session_places(s->session, i)) {
            s->found[i] = true;
            btrail_log(BTRAIL_LOG_INFO, "session %s: trigger %s is found",
                       s->command->session, t->at);
        } else if (t->symbol && !s->found[i] && !s->ready_told) {
            btrail_log(BTRAIL_LOG_INFO, "session %s: trigger %s waits until "
                       "its symbol is found", s->command->session, t->at);
        }
    }
}

static gboolean fired_readable(gint fd, GIOCondition condition,
                               gpointer opaque)
{
    struct btrail_service_session *s = opaque;
    int n;

    while ((n = btrail_session_take_fired(s->session)) >= 0) {
        const struct btrail_command_trigger *t =
            &g_array_index(s->command->triggers,
                           struct btrail_command_trigger, n);
        g_autoptr(GError) error = NULL;

        btrail_log(BTRAIL_LOG_INFO, "session %s: trigger %s",
                   s->command->session, t->at);
        if (t->act == BTRAIL_COMMAND_ACT_STOP && !s->why) {
            s->why = g_strdup_printf("trigger %s", t->at);
        }
        if (t->act != BTRAIL_COMMAND_ACT_DUMP) {
            /* It goes on like that after a restart. */
            s->options.owner->changed(s->options.opaque, s);
            continue;
        }
        /* One at a time: what fires all the time would fill the disk. */
        if (s->dumps) {
            btrail_session_release_ring(s->session);
        } else if (!btrail_service_session_dump(s, NULL,
                                              BTRAIL_SERVICE_SESSION_TRIGGER,
                                              NULL, trigger_dumped, s,
                                              &error)) {
            btrail_session_release_ring(s->session);
            trigger_dumped(s, NULL, error);
        }
    }
    if (btrail_service_session_is_ready(s)) {
        log_places(s);
        if (!s->ready_told) {
            s->ready_told = true;
            s->options.owner->ready(s->options.opaque, s);
        }
    }
    return G_SOURCE_CONTINUE;
}

/* Make the agent's session; the store is taken. */
static bool make_session(struct btrail_service_session *s,
                         struct btrail_store *store, const GArray *resume,
                         GError **error)
{
    g_autofree char *ring_path = NULL;
    struct btrail_wishes w;

    if (s->command->last && !make_ring(s, &ring_path, error)) {
        return false;
    }
    btrail_wishes_init(&w, s->command, s->options.ring);
    w.options.metadata = s->options.metadata;
    w.options.files = s->options.files;
    w.options.folder = ring_path;
    w.options.store = store;
    if (resume) {
        w.options.resume = (uint64_t *)resume->data;
        w.options.n_resume = resume->len;
    }
    w.options.keeping = s->options.keeping;
    s->session = btrail_session_new(&w.options, error);
    btrail_wishes_clear(&w);
    if (!s->session) {
        remove_ring(s);
        return false;
    }
    s->done_source = g_unix_fd_add(btrail_session_done_fd(s->session),
                                   G_IO_IN, done_readable, s);
    s->fired_source = g_unix_fd_add(btrail_session_fired_fd(s->session),
                                    G_IO_IN, fired_readable, s);
    if (s->command->triggers) {
        s->found = g_new0(bool, s->command->triggers->len);
    }
    return true;
}

static struct btrail_service_session *
new_session(const struct btrail_service_session_options *options)
{
    struct btrail_service_session *s = g_new0(struct btrail_service_session, 1);
    const struct btrail_command *c = options->command;

    s->options = *options;
    s->command = options->command;
    s->folder = -1;
    s->refs = 1;
    s->started = g_get_real_time();
    json_object_ref(s->options.metadata);
    json_object_set_string_member(s->options.metadata, "session", c->session);
    if (c->owner) {
        json_object_set_string_member(s->options.metadata, "owner", c->owner);
    }
    return s;
}

/* The path in @options is that of what is made. */
static struct btrail_store *open_store(struct btrail_service_session *s,
                                       struct btrail_store_options *options,
                                       GError **error)
{
    struct btrail_store *store;

    options->part_size = s->command->split;
    if (btrail_store_open(&store, options)) {
        if (errno == EEXIST) {
            btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_NAME,
                               "there is a trace '%s' already, or a part of "
                               "it; give this one another name",
                               s->command->file);
        } else {
            btrail_daemon_fail_errno(error, "%s", s->command->file);
        }
        return NULL;
    }
    s->part = g_strdup(options->path);
    return store;
}

struct btrail_service_session *
btrail_service_session_new(const struct btrail_service_session_options *options,
                         GError **error)
{
    struct btrail_service_session *s = new_session(options);
    struct btrail_store_options store_options = { NULL };
    struct btrail_store *store = NULL;

    if (!check_ring(options, error)) {
        goto fail;
    }
    s->path = btrail_folder_place(options->folder, s->command->file,
                                  &s->folder, error);
    if (!s->path) {
        goto fail;
    }
    if (!s->command->last) {
        store_options.path = s->path;
        store = open_store(s, &store_options, error);
        if (!store) {
            goto fail;
        }
    }
    if (!make_session(s, store, NULL, error)) {
        remove_part(s);
        goto fail;
    }
    return s;

fail:
    unref(s);
    return NULL;
}

static bool open_again(struct btrail_service_session *s,
                       const struct btrail_state_session *state,
                       struct btrail_leftover *left, GError **error)
{
    struct btrail_store_options options = { NULL };
    struct btrail_store *store;
    g_autofree char *part_path = NULL;
    uint32_t part;

    s->path = btrail_folder_find(s->options.folder, s->command->file,
                                 &s->folder, error);
    if (!s->path) {
        return false;
    }
    part = btrail_leftover_last_part(s->path) + 1;
    part_path = btrail_part_path(s->path, part);
    options.path = part_path;
    options.id = left->id;
    options.part = part;
    options.begin = state->whole ? BTRAIL_GAP_AGENT_LOST :
                    BTRAIL_GAP_ELSEWHERE;
    store = open_store(s, &options, error);
    if (!store) {
        return false;
    }
    if (!make_session(s, store, state->whole ? NULL : left->indices, error)) {
        remove_part(s);
        return false;
    }
    s->past.records = left->records;
    s->past.bytes = left->bytes;
    btrail_leftover_complete_part(dup(s->folder), s->path, part - 1);
    return true;
}

struct btrail_service_session *
btrail_service_session_resume(const struct btrail_service_session_options *options,
                            const struct btrail_state_session *state,
                            struct btrail_leftover *left,
                            GError **error)
{
    struct btrail_service_session_options again = *options;
    struct btrail_service_session *s;
    bool ok;

    again.keeping = state->keeping;
    if (state->ring) {
        g_free(btrail_leftover_keep_ring(options->folder,
                                         options->command->session, "-before",
                                         state->ring));
    }
    if (!left) {
        s = btrail_service_session_new(&again, error);
    } else {
        s = new_session(&again);
        ok = open_again(s, state, left, error);
        btrail_leftover_free(left);
        if (!ok) {
            unref(s);
            s = NULL;
        }
    }
    if (s) {
        s->resumed = true;
        s->started = state->started / 1000;
        s->whole = state->whole;
    }
    return s;
}

/*
 * Its life
 */

static gboolean duration_passed(gpointer opaque);

/* As far as a timer goes; false if its time is over. */
static bool set_duration(struct btrail_service_session *s)
{
    gint64 left = s->started / 1000 + (gint64)s->command->duration_ms -
                  g_get_real_time() / 1000;

    if (left > 0) {
        s->duration_source = g_timeout_add(MIN(left, G_MAXINT),
                                           duration_passed, s);
        g_source_set_name_by_id(s->duration_source, "duration");
    }
    return left > 0;
}

static gboolean duration_passed(gpointer opaque)
{
    struct btrail_service_session *s = opaque;

    s->duration_source = 0;
    if (!set_duration(s)) {
        s->options.owner->duration(s->options.opaque, s);
    }
    return G_SOURCE_REMOVE;
}

struct btrail_session *
btrail_service_session_begin(struct btrail_service_session *s)
{
    s->added = true;
    s->state = BTRAIL_SERVICE_SESSION_ACTIVE;
    if (s->command->duration_ms && !set_duration(s)) {
        s->duration_source = g_idle_add(duration_passed, s);
    }
    return s->session;
}

static void set_why(struct btrail_service_session *s, const char *why)
{
    if (why && !s->why) {
        s->why = g_strdup(why);
    }
}

void btrail_service_session_spoil(struct btrail_service_session *s,
                                const char *why)
{
    set_why(s, why);
    s->spoilt = true;
}

static gboolean tell_done(gpointer opaque)
{
    struct btrail_service_session *s = opaque;

    if (s->options.owner) {
        s->options.owner->done(s->options.opaque, s);
    }
    unref(s);
    return G_SOURCE_REMOVE;
}

/* What it has made has nothing, and goes. */
static void discard(struct btrail_service_session *s)
{
    struct btrail_session_result result;

    g_clear_handle_id(&s->done_source, g_source_remove);
    g_clear_handle_id(&s->fired_source, g_source_remove);
    g_clear_handle_id(&s->duration_source, g_source_remove);
    if (!s->session) {
        return;
    }
    btrail_session_finish(s->session, &result);
    s->session = NULL;
    g_clear_error(&result.error);
    g_free(result.no_names);
    remove_part(s);
    remove_ring(s);
}

void btrail_service_session_end(struct btrail_service_session *s,
                              struct btrail_capture *c, const char *why)
{
    if (s->state >= BTRAIL_SERVICE_SESSION_ENDING) {
        return;
    }
    set_why(s, why);
    g_clear_handle_id(&s->duration_source, g_source_remove);
    if (!s->added) {
        discard(s);
        s->ended = g_get_real_time();
        s->state = BTRAIL_SERVICE_SESSION_FAILED;
        s->refs++;
        g_idle_add(tell_done, s);
        return;
    }
    s->state = BTRAIL_SERVICE_SESSION_ENDING;
    if (c) {
        btrail_capture_remove(c, s->session);
    }
}

bool btrail_service_session_detach(struct btrail_service_session *s)
{
    s->left = s->state == BTRAIL_SERVICE_SESSION_ACTIVE;
    if (s->left) {
        g_clear_handle_id(&s->duration_source, g_source_remove);
    }
    return s->left;
}

void btrail_service_session_abandon(struct btrail_service_session *s,
                                  const char *why)
{
    s->abandoned = true;
    btrail_service_session_spoil(s, why);
    btrail_service_session_end(s, NULL, why);
}

static void update_progress(struct btrail_service_session *s)
{
    if (s->session && !s->finishing) {
        btrail_session_progress(s->session, &s->progress);
        s->keeping = btrail_session_keeping(s->session);
        if (s->progress.begun) {
            s->whole = btrail_session_whole(s->session);
        }
    }
}

/* What a thread finds out in the end */
struct ending {
    struct btrail_service_session *s;
    struct btrail_session_result result;
    GError *dump_error;
    char *kept;                         /* the folder, if it was not dumped */
};

static void finish_thread(GTask *task, gpointer source, gpointer data,
                          GCancellable *cancellable)
{
    struct ending *e = data;
    struct btrail_service_session *s = e->s;
    bool keep = s->left && s->command->last;

    if (s->command->last && !s->abandoned && !s->left) {
        struct btrail_session_dump dump;

        keep = !btrail_session_dump(s->session, s->path, &dump,
                                    &e->dump_error) && s->progress.begun;
    }
    if (keep) {
        btrail_session_keep_ring(s->session);
    }
    btrail_session_finish(s->session, &e->result);
    if (keep && !s->left) {
        e->kept = btrail_leftover_keep_ring(s->options.folder,
                                            s->command->session, "-kept",
                                            s->ring);
    } else if (!keep) {
        remove_ring(s);
    }
    if (s->abandoned) {
        remove_part(s);
    }
    g_task_return_boolean(task, TRUE);
}

static const char *reason_text(uint16_t reason)
{
    switch (reason) {
    case BTRAIL_END_SHUTDOWN:
        return "the guest has ended";
    case BTRAIL_END_MIGRATED:
        return "the guest runs elsewhere now";
    case BTRAIL_END_PRODUCER_LOST:
        return "QEMU has gone away";
    default:
        return NULL;
    }
}

static void finished(GObject *source, GAsyncResult *async, gpointer opaque)
{
    struct ending *e = opaque;
    struct btrail_service_session *s = e->s;
    const GError *error = e->result.error;
    bool gone = error && error->domain == BTRAIL_AGENT_ERROR &&
                error->code == BTRAIL_AGENT_ERROR_CLOSED;

    s->session = NULL;
    s->finishing = false;
    s->progress = e->result.progress;
    s->ended = g_get_real_time();
    s->state = BTRAIL_SERVICE_SESSION_ENDED;
    if (s->spoilt || (error && !gone) || e->dump_error ||
        e->result.unexplained) {
        s->state = BTRAIL_SERVICE_SESSION_FAILED;
    }
    if (error && !gone) {
        g_free(s->why);
        s->why = g_strdup(error->message);
    } else if (e->dump_error) {
        g_free(s->why);
        s->why = g_strdup(e->dump_error->message);
    } else if (e->result.unexplained) {
        g_free(s->why);
        s->why = g_strdup_printf("%" G_GUINT64_FORMAT " records are missing, "
                                 "and QEMU does not say why",
                                 e->result.unexplained);
    }
    set_why(s, reason_text(e->result.reason));
    if (e->kept) {
        g_autofree char *why = g_steal_pointer(&s->why);

        s->why = g_strdup_printf("%s; what it had is in the folder '%s'", why,
                                 e->kept);
    }
    if (e->result.no_names && s->command->names) {
        btrail_log(BTRAIL_LOG_INFO, "session %s: no names: %s",
                   s->command->session, e->result.no_names);
    }
    g_clear_error(&e->result.error);
    g_clear_error(&e->dump_error);
    g_free(e->result.no_names);
    g_free(e->kept);
    g_free(e);
    tell_done(s);
}

/* Once no thread uses the session any more */
static void finish(struct btrail_service_session *s)
{
    struct ending *e;
    g_autoptr(GTask) task = NULL;

    if (!s->is_over || s->dumps || s->finishing || !s->session) {
        return;
    }
    g_clear_handle_id(&s->duration_source, g_source_remove);
    if (s->fired_source) {
        fired_readable(-1, 0, s);
        g_clear_handle_id(&s->fired_source, g_source_remove);
        if (s->dumps) {
            return;
        }
    }
    update_progress(s);
    if (!s->resumed && !s->left && btrail_session_has_names(s->session) ==
        BTRAIL_SESSION_NAMES_MISSING) {
        /* It has never begun, for all that its owner knows. */
        s->abandoned = true;
    }
    s->state = BTRAIL_SERVICE_SESSION_ENDING;
    s->finishing = true;
    s->refs++;
    e = g_new0(struct ending, 1);
    e->s = s;
    task = g_task_new(NULL, NULL, finished, e);
    g_task_set_task_data(task, e, NULL);
    g_task_run_in_thread(task, finish_thread);
}

void btrail_service_session_free(struct btrail_service_session *s)
{
    if (s) {
        g_assert(!s->added || !s->session);
        discard(s);
        s->options.owner = NULL;
        unref(s);
    }
}

enum btrail_service_session_state
btrail_service_session_state(const struct btrail_service_session *s)
{
    return s->state;
}

bool btrail_service_session_is_left(const struct btrail_service_session *s)
{
    return s->left;
}

bool btrail_service_session_is_done(const struct btrail_service_session *s)
{
    return s->state >= BTRAIL_SERVICE_SESSION_ENDED;
}

const struct btrail_command *
btrail_service_session_command(const struct btrail_service_session *s)
{
    return s->command;
}

uint64_t btrail_service_session_bytes(struct btrail_service_session *s)
{
    update_progress(s);
    return s->past.bytes + s->progress.bytes;
}

void btrail_service_session_waited(struct btrail_service_session *s,
                                 const struct btrail_capture_progress *p)
{
    if (!s->waited_known) {
        s->paused_base = p->paused_ns;
        s->limited_base = p->limited_ns;
        s->waited_known = true;
    }
    if (s->state <= BTRAIL_SERVICE_SESSION_ENDING) {
        s->paused_ns = p->paused_ns - MIN(p->paused_ns, s->paused_base);
        s->limited_ns = p->limited_ns - MIN(p->limited_ns, s->limited_base);
    }
}

/* What was asked for, as it came */
static void copy_members(JsonObject *to, JsonObject *from)
{
    static const char *const members[] = {
        "owner", "vcpus", "cr3", "processes", "size", "duration", "split",
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(members); i++) {
        if (json_object_has_member(from, members[i])) {
            json_object_set_member(to, members[i],
                                   json_object_dup_member(from, members[i]));
        }
    }
}

/* Likewise, and at how many places each acts */
static void put_triggers(JsonObject *json, const struct btrail_service_session *s)
{
    JsonArray *array = json_array_new();
    unsigned i;

    for (i = 0; i < s->command->triggers->len; i++) {
        const struct btrail_command_trigger *t =
            &g_array_index(s->command->triggers,
                           struct btrail_command_trigger, i);
        JsonObject *trigger = json_object_new();

        json_object_set_string_member(trigger, "at", t->at);
        json_object_set_string_member(trigger, "do",
                                      btrail_command_action_name(t->act));
        json_object_set_int_member(trigger, "hits", t->hits);
        if (s->session && !s->finishing) {
            json_object_set_int_member(trigger, "places",
                                       btrail_session_places(s->session, i));
        }
        json_array_add_object_element(array, trigger);
    }
    json_object_set_array_member(json, "triggers", array);
}

JsonObject *btrail_service_session_status(struct btrail_service_session *s)
{
    JsonObject *json = json_object_new();
    const struct btrail_command *c = s->command;

    update_progress(s);
    json_object_set_string_member(json, "session", c->session);
    json_object_set_string_member(json, "state", state_names[s->state]);
    json_object_set_string_member(json, "mode", c->last ? "last" :
                                  "continuous");
    json_object_set_string_member(json, "file", c->file);
    json_object_set_string_member(json, "folder", s->options.folder->path);
    json_object_set_string_member(json, "privilege",
                                  btrail_privilege_name(c->privilege));
    json_object_set_string_member(json, "overflow",
                                  btrail_overflow_name(c->overflow));
    copy_members(json, c->json);
    if (c->triggers) {
        put_triggers(json, s);
    }
    json_object_set_int_member(json, "records",
                               s->past.records + s->progress.records);
    json_object_set_int_member(json, "filtered", s->progress.filtered);
    json_object_set_int_member(json, "bytes",
                               s->past.bytes + s->progress.bytes);
    json_object_set_int_member(json, "lost", s->progress.lost);
    json_object_set_int_member(json, "paused-ns", s->paused_ns);
    json_object_set_int_member(json, "limited-ns", s->limited_ns);
    json_object_set_int_member(json, "cpu-ns", s->progress.cpu_ns);
    btrail_json_set_time(json, "started", s->started / 1000000);
    if (s->ended) {
        btrail_json_set_time(json, "ended", s->ended / 1000000);
    }
    if (s->why) {
        g_autofree char *why = g_utf8_make_valid(s->why, -1);

        json_object_set_string_member(json, "why", why);
    }
    return json;
}

struct btrail_state_session *
btrail_service_session_save(struct btrail_service_session *s)
{
    struct btrail_state_session *state;
    JsonObject *command;
    g_autoptr(GList) members = NULL;
    GList *l;

    /* One that goes on is not to be lost before it is in a capture again. */
    if ((!s->added && !s->resumed) || s->left ||
        btrail_service_session_is_done(s)) {
        return NULL;
    }
    update_progress(s);
    state = btrail_state_session_new();
    command = json_object_new();
    members = json_object_get_members(s->command->json);
    for (l = members; l; l = l->next) {
        json_object_set_member(command, l->data,
                               json_object_dup_member(s->command->json,
                                                      l->data));
    }
    json_object_set_string_member(command, "session", s->command->session);
    json_object_set_string_member(command, "file", s->command->file);
    state->command = command;
    state->started = s->started * 1000;
    state->ring = g_strdup(s->ring);
    state->whole = s->whole;
    state->keeping = s->keeping;
    return state;
}

/*
 * Dumps
 */

struct dumping {
    struct btrail_service_session *s;
    char *file, *path;
    int folder;
    struct btrail_session_dump dump;
    btrail_service_session_dumped *dumped;
    void *opaque;
    GError *error;
};

static void dump_thread(GTask *task, gpointer source, gpointer data,
                        GCancellable *cancellable)
{
    struct dumping *d = data;

    btrail_session_dump(d->s->session, d->path, &d->dump, &d->error);
    g_task_return_boolean(task, TRUE);
}

static void dump_done(GObject *source, GAsyncResult *async, gpointer opaque)
{
    struct dumping *d = opaque;
    struct btrail_service_session *s = d->s;
    g_autoptr(JsonObject) result = json_object_new();

    if (!d->error) {
        json_object_set_string_member(result, "file", d->file);
        json_object_set_int_member(result, "records", d->dump.records);
        json_object_set_int_member(result, "bytes", d->dump.bytes);
    }
    d->dumped(d->opaque, d->error ? NULL : result, d->error);
    close(d->folder);
    g_clear_error(&d->error);
    g_free(d->file);
    g_free(d->path);
    g_free(d);
    s->dumps--;
    finish(s);
    unref(s);
}

bool btrail_service_session_dump(struct btrail_service_session *s,
                               const char *file,
                               enum btrail_service_session_why why,
                               char **place,
                               btrail_service_session_dumped *dumped,
                               void *opaque, GError **error)
{
    static const char *const suffixes[] = {
        [BTRAIL_SERVICE_SESSION_ASKED] = "-dump",
        [BTRAIL_SERVICE_SESSION_TRIGGER] = "-trigger",
        [BTRAIL_SERVICE_SESSION_PANIC] = "-panic",
    };
    g_autofree char *name = file ? g_strdup(file) :
        btrail_folder_default_name(s->command->session, suffixes[why]);
    g_autoptr(GTask) task = NULL;
    struct dumping *d;
    char *path;
    int folder;

    if (!s->command->last) {
        return btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_COMMAND,
                                  "session '%s' is not of mode 'last'; all "
                                  "that it has recorded is in '%s'",
                                  s->command->session, s->command->file);
    }
    if (!s->added || s->finishing || !s->session) {
        return btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_COMMAND,
                                  "session '%s' has ended; what it had is in "
                                  "'%s'", s->command->session,
                                  s->command->file);
    }
    if (s->dumps >= (why == BTRAIL_SERVICE_SESSION_PANIC ? 2 : 1)) {
        return btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_COMMAND,
                                  "session '%s' is being dumped; ask again "
                                  "later", s->command->session);
    }
    if (!s->options.owner->admit_dump(s->options.opaque, error)) {
        return false;
    }
    path = btrail_folder_place(s->options.folder, name, &folder, error);
    if (!path) {
        return false;
    }
    d = g_new0(struct dumping, 1);
    d->s = s;
    if (place) {
        *place = g_strdup(name);
    }
    d->file = g_steal_pointer(&name);
    d->path = path;
    d->folder = folder;
    d->dumped = dumped;
    d->opaque = opaque;
    s->dumps++;
    s->refs++;
    task = g_task_new(NULL, NULL, dump_done, d);
    g_task_set_task_data(task, d, NULL);
    g_task_run_in_thread(task, dump_thread);
    return true;
}
