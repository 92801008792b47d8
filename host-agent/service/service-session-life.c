/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The life of a session, from its files to its end: see service-session.h
 */

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <glib-unix.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backtrail/words.h"
#include "lib/agent/parts.h"
#include "service/log.h"
#include "service/ring-folder.h"
#include "service/service-session.h"
#include "service/trigger-why.h"
#include "util/close.h"
#include "util/json.h"

/* The most that a block of records grows to while it is made */
#define BLOCK_MEMORY    (UINT64_C(4) << 20)
#define QUEUED_BLOCKS   8

/* Until a session whose duration is over is reported once more */
#define TIME_OVER_MS    100

void service_session_unref(struct service_session *s)
{
    if (--s->refs) {
        return;
    }
    btrail_close(s->folder);
    btrail_close(s->ring_lock);
    command_free(s->command);
    g_free(s->path);
    g_free(s->part);
    g_free(s->ring);
    g_free(s->id);
    g_free(s->why);
    g_free(s->found);
    g_clear_pointer(&s->not_found, json_array_unref);
    g_ptr_array_unref(s->dumping);
    g_free(s);
}

static void enter(struct service_session *s,
                  enum service_session_state next)
{
#define OF(state) (1u << SERVICE_SESSION_##state)
    static const struct {
        const char *name;
        unsigned from;
    } states[] = {
        [SERVICE_SESSION_STARTING] = { "starting", 0 },
        [SERVICE_SESSION_ACTIVE] = { "active", OF(STARTING) },
        [SERVICE_SESSION_ENDING] = { "ending", OF(ACTIVE) },
        [SERVICE_SESSION_OVER] = { "over", OF(ACTIVE) | OF(ENDING) },
        [SERVICE_SESSION_FINISHING] = { "finishing", OF(OVER) },
        [SERVICE_SESSION_ENDED] = { "ended", OF(FINISHING) },
        [SERVICE_SESSION_FAILED] = { "failed", OF(STARTING) |
                                            OF(FINISHING) },
    };
#undef OF

    service_log(SERVICE_LOG_DEBUG, "session %s: %s, was %s",
                s->command->session,
                states[next].name, states[s->state].name);
    g_assert(states[next].from & (1u << s->state));
    s->state = next;
}

static void decide(struct service_session *s,
                   enum service_session_fate fate)
{
    static const char *const names[] = {
        [SERVICE_SESSION_COMPLETED] = "completed",
        [SERVICE_SESSION_DETACHED] = "detached",
        [SERVICE_SESSION_UNNAMED] = "without names",
        [SERVICE_SESSION_SPOILT] = "spoilt",
        [SERVICE_SESSION_ABANDONED] = "abandoned",
    };

    service_log(SERVICE_LOG_DEBUG, "session %s: to be %s, was to be %s",
                s->command->session, names[fate], names[s->fate]);
    g_assert(s->fate == SERVICE_SESSION_COMPLETED ||
             fate == SERVICE_SESSION_ABANDONED);
    s->fate = fate;
}

uint64_t service_session_memory(unsigned vcpus)
{
    return (vcpus + QUEUED_BLOCKS) * BLOCK_MEMORY;
}

static bool check_ring(const struct service_session_options *o,
                       GError **error)
{
    uint64_t ring = o->host->config->ring;

    if (o->command->limit.bytes > ring) {
        return service_fail(error, SERVICE_ERROR_LIMIT,
                            "a session of mode 'last' may keep %"
                            G_GUINT64_FORMAT " bytes at most", ring);
    }
    return true;
}

static bool make_ring(struct service_session *s, char **path,
                      GError **error)
{
    s->ring_lock = part_ring_folder_make(s->options.folder, &s->ring, error);
    if (s->ring_lock < 0) {
        return false;
    }
    *path = g_strdup_printf("/proc/self/fd/%d/%s", s->options.folder->fd,
                            s->ring);
    return true;
}

/* Removes the ring's folder; files in it that are not ours keep it. */
static void remove_ring(struct service_session *s)
{
    if (s->ring) {
        unlinkat(s->options.folder->fd, s->ring, AT_REMOVEDIR);
    }
}

/* Removes what this session has written; parts from before stay. */
static void remove_own_part(struct service_session *s)
{
    if (s->part) {
        unlinkat(s->folder, folder_last(s->part), 0);
    }
}

void service_session_report(struct service_session *s,
                            enum service_session_event event)
{
    if (s->options.event) {
        s->options.event(s->options.opaque, s, event);
    }
}

static gboolean done_readable(gint fd, GIOCondition condition, gpointer opaque)
{
    struct service_session *s = opaque;

    s->done_source = 0;
    /* One that a trigger has ended was maybe never asked before. */
    service_session_report(s, SERVICE_SESSION_DRAINED);
    enter(s, SERVICE_SESSION_OVER);
    service_session_finish(s);
    return G_SOURCE_REMOVE;
}

static void trigger_dumped(void *opaque, JsonObject *result,
                           const GError *error)
{
    struct service_session *s = opaque;

    if (error) {
        service_log(SERVICE_LOG_WARNING, "session %s: its dump for a trigger "
                    "failed: %s", s->command->session, error->message);
    } else {
        service_log(SERVICE_LOG_INFO, "session %s: dumped for a trigger into "
                    "%s", s->command->session,
                    json_object_get_string_member(result, "file"));
    }
}

static bool is_ready(const struct service_session *s)
{
    struct session_progress p;

    session_progress(s->session, &p);
    /* Then it is known how its records are numbered, which is in its state. */
    return p.begun &&
           session_has_names(s->session) == SESSION_NAMES_FINE;
}

static void log_places(struct service_session *s)
{
    for (unsigned i = 0; i < s->command->n_triggers; i++) {
        if (!trigger_is_wanted(&s->command->triggers[i]) ||
            s->found[i]) {
            continue;
        }
        s->found[i] = session_places(s->session, i);
        if (s->found[i] || !s->ready) {
            service_log(SERVICE_LOG_INFO, "session %s: trigger %s %s",
                        s->command->session, s->command->at[i],
                        s->found[i] && session_places_capped(s->session, i) ?
                        "is found at more places than a session takes" :
                        s->found[i] ? "is found" :
                        s->command->triggers[i].symbol ?
                        "waits until its symbol is found" :
                        "waits until the guest runs code that has it");
        }
    }
}

static gboolean fired_readable(gint fd, GIOCondition condition,
                               gpointer opaque)
{
    struct service_session *s = opaque;
    struct trigger_hit hit;

    while (session_take_fired(s->session, &hit)) {
        const struct service_command *c = s->command;
        unsigned action = c->triggers[hit.trigger].action;
        g_autofree char *why = trigger_why(c->at[hit.trigger],
                                           c->until[hit.trigger], &hit);
        g_autoptr(GError) error = NULL;

        service_log(SERVICE_LOG_INFO, "session %s: %s", c->session, why);
        if (action == TRIGGER_STOP && !s->why) {
            s->why = g_strdup(why);
        }
        if (action != TRIGGER_DUMP) {
            /* A restart keeps whether it records. */
            service_session_report(s, SERVICE_SESSION_CHANGED);
            continue;
        }
        /* One at a time: frequent triggers would fill the disk. */
        if (s->dumps) {
            session_release_ring(s->session);
            session_set_trigger_on(s->session, hit.trigger);
        } else if (!service_session_dump(s, NULL,
                                              SERVICE_SESSION_TRIGGER, why,
                                              NULL, trigger_dumped, s,
                                              &error)) {
            session_release_ring(s->session);
            session_set_trigger_on(s->session, hit.trigger);
            trigger_dumped(s, NULL, error);
        }
    }
    if (is_ready(s)) {
        log_places(s);
        if (!s->ready) {
            s->ready = true;
            service_session_report(s, SERVICE_SESSION_READY);
        }
    }
    return G_SOURCE_CONTINUE;
}

void service_session_report_ready(struct service_session *s)
{
    if (s->ready) {
        service_session_report(s, SERVICE_SESSION_READY);
    }
}

/* Describes the session in its trace. */
static JsonObject *metadata(const struct service_session *s)
{
    return btrail_json_new("s:guest", s->options.guest,
                           "s:session", s->command->session,
                           "S:owner", s->command->owner, NULL);
}

/* Where it looks for functions of programs */
static bool find_files(const struct service_session *s,
                       struct symbol_files *files, GError **error)
{
    const char *const *sysroots = s->command->sysroots;

    *files = s->options.host->files;
    if (!sysroots) {
        return true;
    }
    if (!files->below) {
        return service_fail(error, SERVICE_ERROR_COMMAND,
                            "this service serves several users, so no session "
                            "names files that it reads: its administrator "
                            "does, by 'sysroots' of backtraild.conf");
    }
    files->opaque = files->below(files->opaque, sysroots, error);
    return files->opaque;
}

/* Makes the session of the drain; @store is taken. */
static bool make_session(struct service_session *s,
                         struct btrail_store *store, const GArray *resume,
                         GError **error)
{
    const struct host *host = s->options.host;
    g_autoptr(JsonObject) meta = metadata(s);
    g_autofree char *ring_path = NULL;
    struct session_settings o =
        command_options(s->command, host->config->ring);

    if (!find_files(s, &o.files, error) ||
        (o.mode == SESSION_LAST && !make_ring(s, &ring_path, error))) {
        return false;
    }
    o.metadata = meta;
    o.folder = ring_path;
    o.store = store;
    if (resume) {
        o.resumes = true;
        o.resume = (uint64_t *)resume->data;
        o.n_resume = resume->len;
    }
    o.keeping = s->keeping;
    o.off = s->off;
    s->session = session_new(&o, error);
    if (!s->session) {
        remove_ring(s);
        return false;
    }
    s->done_source = g_unix_fd_add(session_done_fd(s->session),
                                   G_IO_IN, done_readable, s);
    s->fired_source = g_unix_fd_add(session_fired_fd(s->session),
                                    G_IO_IN, fired_readable, s);
    s->found = g_new0(bool, s->command->n_triggers);
    return true;
}

/* Creates the file at the path in @options. */
static struct btrail_store *open_store(struct service_session *s,
                                       struct btrail_store_options *options,
                                       GError **error)
{
    struct btrail_store *store;

    options->part_size = s->command->split;
    if (btrail_store_open(&store, options)) {
        if (errno == EEXIST) {
            service_fail(error, SERVICE_ERROR_NAME,
                         "there is a trace '%s' already, or a part of "
                         "it; choose another name",
                         s->command->file);
        } else {
            service_fail_errno(error, "%s", s->command->file);
        }
        return NULL;
    }
    s->part = g_strdup(options->path);
    return store;
}

static bool open_new(struct service_session *s, GError **error)
{
    struct btrail_store_options options = { NULL };
    struct btrail_store *store = NULL;

    if (!check_ring(&s->options, error)) {
        return false;
    }
    s->path = folder_place(s->options.folder, s->command->file,
                           &s->folder, error);
    if (!s->path) {
        return false;
    }
    if (s->command->mode != SESSION_LAST) {
        options.path = s->path;
        store = open_store(s, &options, error);
        if (!store) {
            return false;
        }
    }
    if (!make_session(s, store, NULL, error)) {
        remove_own_part(s);
        return false;
    }
    return true;
}

static bool open_again(struct service_session *s,
                       struct leftover *left, GError **error)
{
    struct btrail_store_options options = { NULL };
    struct btrail_store *store;
    g_autofree char *part_path = NULL;
    uint32_t part;

    s->path = folder_find(s->options.folder, s->command->file,
                          &s->folder, error);
    if (!s->path) {
        return false;
    }
    part = leftover_last_part(s->path) + 1;
    part_path = btrail_part_path(s->path, part);
    options.path = part_path;
    options.id = left->id;
    options.part = part;
    options.begin = s->whole ? BTRAIL_GAP_AGENT_LOST : BTRAIL_GAP_ELSEWHERE;
    store = open_store(s, &options, error);
    if (!store) {
        return false;
    }
    if (!make_session(s, store, s->whole ? NULL : left->indices, error)) {
        remove_own_part(s);
        return false;
    }
    s->past.records = left->records;
    s->past.bytes = left->bytes;
    s->past.record_bytes = left->record_bytes;
    s->past.lost = left->lost;
    s->first_part = part;
    return true;
}

struct service_session *
service_session_new(const struct service_session_options *options,
                    JsonObject *state, struct leftover *left,
                    GError **error)
{
    struct service_session *s = g_new0(struct service_session, 1);
    bool ok;

    s->options = *options;
    s->command = options->command;
    s->folder = -1;
    s->ring_lock = -1;
    s->refs = 1;
    s->started = g_get_real_time();
    s->dumping = g_ptr_array_new_with_free_func(g_free);
    s->id = state ? g_strdup(btrail_json_string(state, "id")) :
                    state_files_new_id();
    if (state) {
        s->resumed = true;
        s->started = btrail_json_int(state, "started", 0) / 1000;
        s->whole = btrail_json_is_true(state, "whole");
        s->keeping = btrail_json_is_true(state, "keeping");
        s->off = btrail_json_int(state, "off", 0);
    }
    ok = left ? open_again(s, left, error) : open_new(s, error);
    leftover_free(left);
    if (!ok) {
        service_session_unref(s);
        return NULL;
    }
    return s;
}

static gboolean duration_passed(gpointer opaque);

/* Sets a timer, for as long as timers can be; false if the time is over. */
static bool set_duration(struct service_session *s)
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
    struct service_session *s = opaque;

    s->duration_source = 0;
    if (!set_duration(s)) {
        /* The owner ends the session, now or when this is reported again. */
        s->duration_source = g_timeout_add(TIME_OVER_MS, duration_passed, s);
        service_session_report(s, SERVICE_SESSION_TIME_OVER);
    }
    return G_SOURCE_REMOVE;
}

struct session *
service_session_begin(struct service_session *s)
{
    enter(s, SERVICE_SESSION_ACTIVE);
    if (s->command->duration_ms && !set_duration(s)) {
        s->duration_source = g_idle_add(duration_passed, s);
    }
    return s->session;
}

static void set_why(struct service_session *s, const char *why)
{
    if (why && !s->why) {
        s->why = g_strdup(why);
    }
}

void service_session_spoil(struct service_session *s,
                                const char *why)
{
    set_why(s, why);
    if (s->fate == SERVICE_SESSION_COMPLETED) {
        decide(s, SERVICE_SESSION_SPOILT);
    }
}

static gboolean report_done(gpointer opaque)
{
    struct service_session *s = opaque;

    service_session_report(s, SERVICE_SESSION_DONE);
    service_session_unref(s);
    return G_SOURCE_REMOVE;
}

/* Removes the files of a session that has recorded nothing. */
static void discard(struct service_session *s)
{
    struct session_result result;

    g_clear_handle_id(&s->done_source, g_source_remove);
    g_clear_handle_id(&s->fired_source, g_source_remove);
    g_clear_handle_id(&s->duration_source, g_source_remove);
    if (!s->session) {
        return;
    }
    session_finish(s->session, &result);
    s->session = NULL;
    g_clear_error(&result.error);
    g_free(result.no_names);
    remove_own_part(s);
    remove_ring(s);
}

void service_session_end(struct service_session *s,
                              struct capture *c, const char *why)
{
    if (s->state >= SERVICE_SESSION_ENDING) {
        return;
    }
    set_why(s, why);
    g_clear_handle_id(&s->duration_source, g_source_remove);
    if (s->state == SERVICE_SESSION_STARTING) {
        discard(s);
        s->ended = g_get_real_time();
        enter(s, SERVICE_SESSION_FAILED);
        s->refs++;
        g_idle_add(report_done, s);
        return;
    }
    enter(s, SERVICE_SESSION_ENDING);
    service_session_report(s, SERVICE_SESSION_CHANGED);
    if (c) {
        capture_remove(c, s->session);
    }
}

bool service_session_detach(struct service_session *s)
{
    if (s->state != SERVICE_SESSION_ACTIVE) {
        return false;
    }
    decide(s, SERVICE_SESSION_DETACHED);
    g_clear_handle_id(&s->duration_source, g_source_remove);
    return true;
}

void service_session_abandon(struct service_session *s,
                                  const char *why)
{
    set_why(s, why);
    decide(s, SERVICE_SESSION_ABANDONED);
    service_session_end(s, NULL, why);
}

/* The result of finishing a session; @fate as it was when that began */
struct ending {
    struct service_session *s;
    enum service_session_fate fate;
    struct session_result result;
    GError *dump_error;
    char *why;              /* it has ended, or NULL */
    char *kept;             /* the ring's folder, if the dump failed */
};

static void finish_thread(GTask *task, gpointer source, gpointer data,
                          GCancellable *cancellable)
{
    struct ending *e = data;
    struct service_session *s = e->s;
    bool last = s->command->mode == SESSION_LAST;
    bool detached = e->fate == SERVICE_SESSION_DETACHED;
    bool removed = e->fate == SERVICE_SESSION_UNNAMED ||
                   e->fate == SERVICE_SESSION_ABANDONED;
    bool keep = detached && last;

    if (last && !removed && !detached) {
        struct session_dump dump = { .why = e->why };

        keep = !session_dump(s->session, s->path, &dump,
                             &e->dump_error) && s->progress.begun;
    }
    if (keep) {
        session_keep_ring(s->session);
    }
    session_finish(s->session, &e->result);
    if (keep && !detached) {
        e->kept = leftover_keep_ring(s->options.folder,
                                     s->command->session, "-kept",
                                     s->ring);
    } else if (!keep) {
        remove_ring(s);
    }
    if (removed) {
        remove_own_part(s);
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

/* Why the trace is not what was requested, to be freed; or NULL */
static char *find_fault(const struct ending *e)
{
    const GError *error = e->result.error;

    if (error && !g_error_matches(error, AGENT_ERROR,
                                  AGENT_ERROR_CLOSED)) {
        return g_strdup(error->message);
    }
    if (e->dump_error) {
        return g_strdup(e->dump_error->message);
    }
    return !e->result.unexplained ? NULL :
           g_strdup_printf("%" G_GUINT64_FORMAT " records are missing, and "
                           "QEMU does not say why", e->result.unexplained);
}

static void finished(GObject *source, GAsyncResult *async, gpointer opaque)
{
    struct ending *e = opaque;
    struct service_session *s = e->s;
    g_autofree char *fault = find_fault(e);
    bool said = s->fate >= SERVICE_SESSION_SPOILT;

    s->session = NULL;
    s->progress = e->result.progress;
    s->ended = g_get_real_time();
    enter(s, said || fault ? SERVICE_SESSION_FAILED :
                             SERVICE_SESSION_ENDED);
    /* Whatever else the drain says only follows from that. */
    if (fault && !said) {
        g_free(s->why);
        s->why = g_steal_pointer(&fault);
    }
    set_why(s, reason_text(e->result.reason));
    if (e->kept) {
        g_autofree char *why = g_steal_pointer(&s->why);

        s->why = g_strdup_printf("%s; what it had is in the folder '%s'", why,
                                 e->kept);
    }
    if (e->result.no_names && s->command->names) {
        service_log(SERVICE_LOG_INFO, "session %s: no names: %s",
                    s->command->session, e->result.no_names);
    }
    g_clear_error(&e->result.error);
    g_clear_error(&e->dump_error);
    g_free(e->result.no_names);
    g_free(e->kept);
    g_free(e->why);
    g_free(e);
    report_done(s);
}

void service_session_finish(struct service_session *s)
{
    struct ending *e;
    g_autoptr(GTask) task = NULL;

    if (s->state != SERVICE_SESSION_OVER || s->dumps) {
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
    service_session_update(s);
    if (!s->resumed && s->fate == SERVICE_SESSION_COMPLETED &&
        session_has_names(s->session) == SESSION_NAMES_MISSING) {
        /* Its owner does not know yet that it has begun. */
        decide(s, SERVICE_SESSION_UNNAMED);
    }
    enter(s, SERVICE_SESSION_FINISHING);
    s->refs++;
    e = g_new0(struct ending, 1);
    e->s = s;
    e->fate = s->fate;
    e->why = g_strdup(s->why);
    task = g_task_new(NULL, NULL, finished, e);
    g_task_set_task_data(task, e, NULL);
    g_task_run_in_thread(task, finish_thread);
}

void service_session_free(struct service_session *s)
{
    if (s) {
        g_assert(s->state == SERVICE_SESSION_STARTING || !s->session);
        discard(s);
        s->options.event = NULL;
        service_session_unref(s);
    }
}
