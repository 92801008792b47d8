/*
 * virsh-trace-list.c: The command "trace-list"
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace.h"
#include "virsh-trace-answer.h"
#include "virsh-trace-each.h"
#include "virsh-trace-option.h"
#include "virsh-trace-text.h"
#include "virsh-util.h"

#include "virbuffer.h"
#include "vsh-table.h"

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
static virJSONValue *
virshTraceListShutOff(vshControl *ctl,
                      virDomainPtr dom)
{
    virshControl *priv = ctl->privData;
    const char *name = virDomainGetName(dom);
    char uuid[VIR_UUID_STRING_BUFLEN] = "";
    g_auto(virshTraceError) err = { 0 };
    virDomainPtr *others = NULL;
    virJSONValue *ret = NULL;
    size_t i;

    ignore_value(virDomainGetUUIDString(dom, uuid));
    if (virConnectListAllDomains(priv->conn, &others,
                                 VIR_CONNECT_LIST_DOMAINS_ACTIVE) < 0)
        return NULL;

    for (i = 0; others[i] && !ret; i++) {
        g_auto(virshTraceError) why = { 0 };

        if (!(ret = virshTraceAsk(ctl, others[i], &why,
                                  "s:do", "list",
                                  "s:guest", name,
                                  "s:uuid", uuid,
                                  NULL)) &&
            why.message && !why.unable)
            virshTraceFail(ctl, &err, false, "%s", why.message);
    }

    if (!ret && err.message) {
        virshTraceComplain(ctl, _("domain '%1$s' is not running, and its traces cannot be listed through another one: %2$s"),
                           name, err.message);
    } else if (!ret) {
        virshTraceComplain(ctl, _("domain '%1$s' is not running, and no running domain can be asked for its traces; on its host, 'backtrail list %1$s' lists them, usually in /var/lib/backtrail/traces/%1$s"),
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

static virJSONValue *
virshTraceListAsk(vshControl *ctl,
                  virDomainPtr dom,
                  virshTraceError *err,
                  void *opaque G_GNUC_UNUSED)
{
    if (!err && virDomainIsActive(dom) == 0)
        return virshTraceListShutOff(ctl, dom);

    return virshTraceAsk(ctl, dom, err, "s:do", "list", NULL);
}

static int
virshTraceAddTrace(vshTable *table,
                   virDomainPtr dom,
                   virJSONValue *info)
{
    static const char *const names[] = { "file", "session", "state", "begin" };
    g_autofree char *domain = virshTraceQuote(virDomainGetName(dom));
    g_autofree char *records = g_strdup_printf("%llu", virshTraceNumber(info, "records"));
    g_autofree char *size = virshTraceSizeText(info, "bytes");
    g_auto(GStrv) fields = virshTraceFields(info, names, G_N_ELEMENTS(names));

    return vshTableRowAppend(table, domain, fields[0], fields[1], fields[2],
                             records, size, fields[3], NULL);
}

static int
virshTraceListHandle(virDomainPtr dom,
                     virJSONValue *info,
                     void *opaque)
{
    virshTraceTraces *t = opaque;
    const char *folder = virJSONValueObjectGetString(info, "folder");
    virJSONValue *traces;
    size_t n = virshTraceCount(info, "traces", &traces);
    size_t i;

    for (i = 0; i < n; i++) {
        if (virshTraceAddTrace(t->table, dom,
                               virJSONValueArrayGet(traces, i)) < 0)
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
