/*
 * virsh-completer-trace.c: virsh completer callbacks related to tracing
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>

#include "virsh-completer-trace.h"
#include "virsh-completer.h"
#include "virsh-trace-session.h"
#include "virsh-util.h"

#include "client/session-options.h"

char **
virshTraceSessionCompleter(vshControl *ctl,
                           const vshCmd *cmd,
                           unsigned int flags)
{
    virshControl *priv = ctl->privData;
    g_autoptr(virshDomain) dom = NULL;

    virCheckFlags(0, NULL);

    if (!priv->conn || virConnectIsAlive(priv->conn) <= 0 ||
        !vshCommandOptBool(cmd, "domain"))
        return NULL;

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)))
        return NULL;

    return virshTraceActiveSessions(dom);
}

static char **
virshTraceVcpus(vshControl *ctl,
                const vshCmd *cmd)
{
    g_autoptr(virshDomain) dom = NULL;
    g_auto(GStrv) vcpulist = NULL;
    const char *vcpus = NULL;
    int nvcpus;
    size_t i;

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)) ||
        vshCommandOptStringQuiet(ctl, cmd, "vcpus", &vcpus) < 0 ||
        (nvcpus = virDomainGetMaxVcpus(dom)) < 0)
        return NULL;

    vcpulist = g_new0(char *, nvcpus + 1);

    for (i = 0; i < nvcpus; i++)
        vcpulist[i] = g_strdup_printf("%zu", i);

    return virshCommaStringListComplete(vcpus, (const char **) vcpulist);
}

/* The flags are an enum session_option. */
char **
virshTraceOptionCompleter(vshControl *ctl,
                          const vshCmd *cmd,
                          unsigned int flags)
{
    g_autoptr(GPtrArray) list = NULL;
    word_fn *words;
    const char *value;
    size_t i;

    if (flags == SESSION_OPTION_vcpus)
        return virshTraceVcpus(ctl, cmd);

    list = g_ptr_array_new();
    words = session_option_words(flags, &value);
    for (i = 0; words && words(i); i++)
        g_ptr_array_add(list, g_strdup(words(i)));
    g_ptr_array_add(list, NULL);

    return (char **) g_ptr_array_steal(list, NULL);
}
