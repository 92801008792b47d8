/*
 * virsh-trace-start.c: The command "trace-start"
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace.h"
#include "virsh-trace-agent.h"
#include "virsh-trace-end.h"
#include "virsh-trace-option.h"
#include "virsh-trace-text.h"
#include "virsh-util.h"

#include "client/answer.h"
#include "client/session-options.h"
#include "client/session-wait.h"
#include "util/json.h"

const vshCmdInfo info_trace_start = {
    .help = N_("start tracing the branches of a domain"),
    .desc = N_("Record each branch that a running domain takes into a file "
               "on the domain's host. The domain needs a branch-trace "
               "device."),
};

#define VIRSH_TRACE_OPT_FLAG(_name, _helpstr) \
    VIRSH_TRACE_OPT(#_name, BOOL, NULL, N_(_helpstr)),

#define VIRSH_TRACE_OPT_VALUE(_name, _type, _helpstr) \
    {.name = #_name, \
     .type = VSH_OT_ ## _type, \
     .completer = virshTraceOptionCompleter, \
     .completer_flags = SESSION_OPTION_ ## _name, \
     .help = N_(_helpstr), \
    },

#define VIRSH_TRACE_OPT_TEXT(_name, _helpstr) \
    VIRSH_TRACE_OPT_VALUE(_name, STRING, _helpstr)

#define VIRSH_TRACE_OPT_TEXTS(_name, _helpstr) \
    VIRSH_TRACE_OPT_VALUE(_name, ARGV, _helpstr)

/* One of SESSION_OPTIONS */
#define VIRSH_TRACE_SESSION_OPT(_o, _name, _type, _use, _json, _set, _words, \
                                _value, _helpstr) \
    VIRSH_TRACE_OPT_ ## _type(_name, _helpstr)

const vshCmdOptDef opts_trace_start[] = {
    VIRSH_COMMON_OPT_DOMAIN_FULL(VIR_CONNECT_LIST_DOMAINS_ACTIVE),
    VIRSH_TRACE_OPT_FILE,
    VIRSH_TRACE_OPT("wait", BOOL, NULL,
                    N_("wait for the end of the session; on interrupt, stop it")),
    VIRSH_TRACE_OPT("verbose", BOOL, NULL,
                    N_("with --wait, display the progress")),
    SESSION_OPTIONS(VIRSH_TRACE_SESSION_OPT, )
    {.name = NULL}
};

/* Copy an option as it was given.  These return -1 on error. */

static int
virshTraceGetFLAG(vshControl *ctl G_GNUC_UNUSED,
                  const vshCmd *cmd,
                  const char *name,
                  gboolean *value)
{
    *value = vshCommandOptBool(cmd, name);
    return 0;
}

static int
virshTraceGetTEXT(vshControl *ctl,
                  const vshCmd *cmd,
                  const char *name,
                  char **value)
{
    const char *text = NULL;
    int rc = vshCommandOptString(ctl, cmd, name, &text);

    *value = g_strdup(text);
    return rc;
}

static int
virshTraceGetTEXTS(vshControl *ctl G_GNUC_UNUSED,
                   const vshCmd *cmd,
                   const char *name,
                   char ***value)
{
    *value = g_strdupv((char **) vshCommandOptArgv(cmd, name));
    return 0;
}

#define VIRSH_TRACE_GET(_o, _name, _type, ...) \
    if (virshTraceGet ## _type(ctl, cmd, #_name, &(_o)->_name) < 0) \
        return -1;

static int
virshTraceGetOptions(vshControl *ctl,
                     const vshCmd *cmd,
                     struct session_options *options)
{
    SESSION_OPTIONS(VIRSH_TRACE_GET, options)
    return 0;
}

/* The agent's command for "trace-start"; NULL with an error reported */
static JsonObject *
virshTraceStartCommand(vshControl *ctl,
                       const vshCmd *cmd)
{
    struct session_options options = { 0 };
    g_autoptr(GError) error = NULL;
    JsonObject *command = NULL;
    const char *file = NULL;

    if (vshCommandOptString(ctl, cmd, "file", &file) >= 0 &&
        virshTraceGetOptions(ctl, cmd, &options) == 0 &&
        session_options_check(&options, &error))
        command = session_options_start(&options, file, &error);

    if (error)
        virshTraceComplain(ctl, "%s", error->message);

    session_options_clear(&options);
    return command;
}

/* Wait for a moment until a session that has begun has found all, and say what
 * it has not */
static void
virshTraceAwaitFound(vshControl *ctl,
                     virDomainPtr dom,
                     JsonObject *started)
{
    const struct service_client client = virshTraceClient(dom);
    g_autoptr(JsonObject) session = service_client_await_found(&client, started);
    g_autofree char *missing = session ? answer_missing(session) : NULL;

    if (missing) {
        virshTraceSay(ctl, _("Not found in the guest so far: %1$s; the session looks for it until it ends"),
                      missing);
    }
}

bool
cmdTraceStart(vshControl *ctl, const vshCmd *cmd)
{
    g_autoptr(virshDomain) dom = NULL;
    g_autoptr(JsonObject) command = NULL;
    g_autoptr(JsonObject) started = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *session = NULL;
    g_autofree char *path = NULL;
    bool wait = vshCommandOptBool(cmd, "wait");
    bool named = vshCommandOptBool(cmd, "process") ||
        vshCommandOptBool(cmd, "trigger");
    bool ret = false;

    VSH_REQUIRE_OPTION("verbose", "wait");

    if (!(command = virshTraceStartCommand(ctl, cmd)))
        return false;

    session = g_strdup(btrail_json_string(command, "session"));

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)))
        return false;

    /* An interrupt while the session starts stops it, too. */
    if (wait && vshEventStart(ctl, SESSION_WAIT_MS) < 0)
        return false;

    if (!(started = virshTraceAsk(dom, g_steal_pointer(&command), &error))) {
        virshTraceReport(ctl, virDomainGetName(dom), error);
        goto cleanup;
    }

    path = answer_path(started);
    virshTraceSay(ctl, _("Domain '%1$s' is being traced by session '%2$s'"),
                  virDomainGetName(dom), session);
    if (json_object_has_member(started, "file"))
        virshTraceSay(ctl, _("Trace: %1$s"), path);
    fflush(stdout);

    if (named)
        virshTraceAwaitFound(ctl, dom, started);

    ret = true;
    if (wait) {
        fflush(stdout);
        ret = virshTraceEndSession(ctl, &dom, session,
                                   vshCommandOptBool(cmd, "verbose"));
    }

 cleanup:
    if (wait)
        vshEventCleanup(ctl);
    return ret;
}
