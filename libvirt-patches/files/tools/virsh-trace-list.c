/*
 * virsh-trace-list.c: The command "trace-list"
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace.h"
#include "virsh-trace-each.h"
#include "virsh-trace-option.h"
#include "virsh-trace-text.h"
#include "virsh-util.h"

#include "virbuffer.h"
#include "vsh-table.h"

#include "client/answer.h"
#include "util/agent-error.h"
#include "util/json.h"

const vshCmdInfo info_trace_list = {
    .help = N_("list the traces of domains"),
    .desc = N_("List the traces of a domain, running or not, or of all running "
               "ones, and their folder on the domain's host."),
};

const vshCmdOptDef opts_trace_list[] = {
    VIRSH_TRACE_OPT_DOMAINS(0),
    VIRSH_TRACE_OPT_JSON,
    {.name = NULL}
};

/*
 * The agent can only be asked through a running QEMU.  For a domain that is off
 * any other one of its host and user will do.
 */
static JsonObject *
virshTraceListShutOff(vshControl *ctl,
                      virDomainPtr dom,
                      GError **error)
{
    virshControl *priv = ctl->privData;
    const char *name = virDomainGetName(dom);
    char uuid[VIR_UUID_STRING_BUFLEN] = "";
    g_autoptr(GError) why = NULL;
    virDomainPtr *others = NULL;
    JsonObject *ret = NULL;
    size_t i;

    ignore_value(virDomainGetUUIDString(dom, uuid));
    ignore_value(virConnectListAllDomains(priv->conn, &others,
                                          VIR_CONNECT_LIST_DOMAINS_ACTIVE));

    for (i = 0; others && others[i] && !ret; i++) {
        g_autoptr(GError) one = NULL;

        if (!(ret = virshTraceAsk(others[i],
                                  btrail_json_new("s:do", "list",
                                                  "s:guest", name,
                                                  "s:uuid", uuid, NULL),
                                  &one)) &&
            !virshTraceIsUnable(one)) {
            g_clear_error(&why);
            why = g_steal_pointer(&one);
        }
    }

    if (!ret && why) {
        agent_fail(error, AGENT_ERROR_CLOSED,
                   _("it is not running, and its traces cannot be listed through another domain: %1$s"),
                   why->message);
    } else if (!ret) {
        agent_fail(error, AGENT_ERROR_CLOSED,
                   _("it is not running, and no running domain can be asked for its traces; on its host, 'backtrail list %1$s' lists them, usually in /var/lib/backtrail/traces/%1$s"),
                   name);
    }

    virshTraceDomainsFree(others);
    return ret;
}

/* The traces of a domain outlive it. */
static void
virshTraceListHint(vshControl *ctl,
                   const vshCmd *cmd)
{
    virshControl *priv = ctl->privData;
    const char *name = NULL;
    virDomainPtr dom;

    if (vshCommandOptString(ctl, cmd, "domain", &name) < 0 || !name)
        return;

    if ((dom = virDomainLookupByName(priv->conn, name))) {
        virshDomainFree(dom);
        return;
    }

    vshResetLibvirtError();
    virshTraceComplain(ctl, _("traces of a domain that was undefined stay on its host: 'backtrail list %1$s' lists them there, usually in /var/lib/backtrail/traces/%1$s"),
                       name);
}

/* What virshTraceEach() fills */
typedef struct _virshTraceTraces virshTraceTraces;
struct _virshTraceTraces {
    vshTable *table;
    virBuffer folders;
};

static JsonObject *
virshTraceListAsk(vshControl *ctl,
                  virDomainPtr dom,
                  void *opaque G_GNUC_UNUSED,
                  GError **error)
{
    if (virDomainIsActive(dom) == 0)
        return virshTraceListShutOff(ctl, dom, error);

    return virshTraceAsk(dom, btrail_json_new("s:do", "list", NULL), error);
}

static int
virshTraceAddTrace(vshTable *table,
                   virDomainPtr dom,
                   JsonObject *info)
{
    static const char *const names[] = { "file", "session", "state", "begin" };
    g_autofree char *domain = virshTraceQuote(virDomainGetName(dom));
    g_autofree char *records = virshTraceNumber(info, "records");
    g_autofree char *size = answer_size_text(info, "bytes");
    g_auto(GStrv) fields = virshTraceFields(info, names, G_N_ELEMENTS(names));

    return vshTableRowAppend(table, domain, fields[0], fields[1], fields[2],
                             records, size, fields[3], NULL);
}

static int
virshTraceListHandle(virDomainPtr dom,
                     JsonObject *info,
                     void *opaque)
{
    virshTraceTraces *t = opaque;
    const char *folder = btrail_json_string(info, "folder");
    unsigned i;

    for (i = 0; i < answer_members(info, "traces"); i++) {
        JsonObject *one = answer_member(info, "traces", i);

        if (one && virshTraceAddTrace(t->table, dom, one) < 0)
            return -1;
    }

    if (folder && *folder) {
        g_autofree char *line = g_strdup_printf(_("Folder of domain '%1$s' on its host: %2$s"),
                                                virDomainGetName(dom), folder);
        g_autofree char *quoted = virshTraceQuote(line);

        virBufferAsprintf(&t->folders, "%s\n", quoted);
    }

    return 0;
}

bool
cmdTraceList(vshControl *ctl, const vshCmd *cmd)
{
    g_autoptr(vshTable) table = NULL;
    virshTraceTraces t = { .folders = VIR_BUFFER_INITIALIZER };
    g_autofree char *folders = NULL;
    bool failed = false;
    int rc;

    if (!(table = vshTableNew(_("Domain"), _("File"), _("Session"), _("State"),
                              _("Recorded"), _("Size"), _("Begin"), NULL)))
        return false;

    t.table = table;
    rc = virshTraceEach(ctl, cmd, virshTraceListAsk, virshTraceListHandle, &t,
                        &failed);
    folders = virBufferContentAndReset(&t.folders);
    if (rc < 0) {
        virshTraceListHint(ctl, cmd);
        return false;
    }

    if (!vshCommandOptBool(cmd, "json")) {
        vshTablePrintToStdout(table, ctl);
        vshPrintExtra(ctl, "\n%s", NULLSTR_EMPTY(folders));
    }

    return !failed;
}
