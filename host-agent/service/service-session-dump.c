/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Dumps of a session of mode "last": see service-session.h
 */

#include <gio/gio.h>
#include <unistd.h>

#include "service/quota.h"
#include "service/service-session.h"
#include "util/json.h"

struct dumping {
    struct service_session *s;
    char *file, *path, *words;
    int folder;
    struct session_dump dump;
    service_session_dumped *dumped;
    void *opaque;
    GError *error;
};

static void dump_thread(GTask *task, gpointer source, gpointer data,
                        GCancellable *cancellable)
{
    struct dumping *d = data;

    d->dump.why = d->words;
    session_dump(d->s->session, d->path, &d->dump, &d->error);
    g_task_return_boolean(task, TRUE);
}

static void dump_done(GObject *source, GAsyncResult *async, gpointer opaque)
{
    struct dumping *d = opaque;
    struct service_session *s = d->s;
    unsigned i;
    g_autoptr(JsonObject) result = d->error ? NULL : btrail_json_new(
        "s:file", d->file, "U:records", d->dump.records,
        "U:bytes", d->dump.bytes, NULL);

    d->dumped(d->opaque, result, d->error);
    if (g_ptr_array_find_with_equal_func(s->dumping, d->file, g_str_equal,
                                         &i)) {
        g_ptr_array_remove_index(s->dumping, i);
    }
    service_session_report(s, SERVICE_SESSION_CHANGED);
    close(d->folder);
    g_clear_error(&d->error);
    g_free(d->file);
    g_free(d->path);
    g_free(d->words);
    g_free(d);
    s->dumps--;
    service_session_finish(s);
    service_session_unref(s);
}

bool service_session_dump(struct service_session *s,
                          const char *file,
                          enum service_session_why why,
                          const char *words, char **name,
                          service_session_dumped *dumped,
                          void *opaque, GError **error)
{
    static const char *const suffixes[] = {
        [SERVICE_SESSION_ASKED] = "-dump",
        [SERVICE_SESSION_TRIGGER] = "-trigger",
        [SERVICE_SESSION_PANIC] = "-panic",
    };
    g_autofree char *to = file ? g_strdup(file) :
        folder_default_name(s->command->session, suffixes[why]);
    g_autoptr(GTask) task = NULL;
    struct dumping *d;
    char *path;
    int folder;

    if (s->command->mode != SESSION_LAST) {
        return service_fail(error, SERVICE_ERROR_COMMAND,
                            "session '%s' is not of mode 'last'; all "
                            "that it has recorded is in '%s'",
                            s->command->session, s->command->file);
    }
    if (s->state == SERVICE_SESSION_STARTING ||
        s->state > SERVICE_SESSION_OVER) {
        return service_fail(error, SERVICE_ERROR_COMMAND,
                            "session '%s' has ended; what it had is in "
                            "'%s'", s->command->session,
                            s->command->file);
    }
    if (s->dumps >= (why == SERVICE_SESSION_PANIC ? 2 : 1)) {
        return service_fail(error, SERVICE_ERROR_COMMAND,
                            "session '%s' is being dumped; ask again "
                            "later", s->command->session);
    }
    if (!quota_admit_file(s->options.host, s->options.folder, error)) {
        return false;
    }
    path = folder_place(s->options.folder, to, &folder, error);
    if (!path) {
        return false;
    }
    d = g_new0(struct dumping, 1);
    d->s = s;
    if (name) {
        *name = g_strdup(to);
    }
    d->file = g_steal_pointer(&to);
    d->path = path;
    d->words = g_strdup(words);
    d->folder = folder;
    d->dumped = dumped;
    d->opaque = opaque;
    g_ptr_array_add(s->dumping, g_strdup(d->file));
    service_session_report(s, SERVICE_SESSION_CHANGED);
    s->dumps++;
    s->refs++;
    task = g_task_new(NULL, NULL, dump_done, d);
    g_task_set_task_data(task, d, NULL);
    g_task_run_in_thread(task, dump_thread);
    return true;
}
