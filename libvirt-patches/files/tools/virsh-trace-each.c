/*
 * virsh-trace-each.c: Ask about one domain, or about all running ones
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace-each.h"
#include "virsh-trace-text.h"
#include "virsh-util.h"

#include "util/json.h"

/* @domains ends with NULL. */
void
virshTraceDomainsFree(virDomainPtr *domains)
{
    size_t i;

    for (i = 0; domains && domains[i]; i++)
        virshDomainFree(domains[i]);
    g_free(domains);
}

/* Get the domain that is named, or all running ones.  Returns their number, or
 * -1 with an error reported. */
static int
virshTraceDomains(vshControl *ctl,
                  const vshCmd *cmd,
                  virDomainPtr **domains)
{
    virshControl *priv = ctl->privData;
    virDomainPtr dom;

    if (!vshCommandOptBool(cmd, "domain")) {
        return virConnectListAllDomains(priv->conn, domains,
                                        VIR_CONNECT_LIST_DOMAINS_ACTIVE);
    }

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)))
        return -1;

    *domains = g_new0(virDomainPtr, 2);
    **domains = dom;
    return 1;
}

/* One line for each domain, so that a program knows where each ends */
static void
virshTracePrintJSON(vshControl *ctl,
                    virDomainPtr dom,
                    JsonObject *info)
{
    g_autoptr(JsonObject) named = btrail_json_new("s:domain",
                                                  virDomainGetName(dom), NULL);
    g_autofree char *text = NULL;

    btrail_json_add_all(named, info);
    text = btrail_json_text(named, FALSE);
    vshPrint(ctl, "%s\n", text);
}

/**
 * virshTraceEach:
 * @ask: asks about a domain
 * @handle: handles the answer, which is then printed if "json" is given
 * @failed: is set if a domain could not be asked
 *
 * Ask about the domain that is named, or about all running ones.  Of all, those
 * that cannot be traced are left out, errors of others are reported, and the
 * rest is handled.
 *
 * Returns 0, or -1 on error.
 */
int
virshTraceEach(vshControl *ctl,
               const vshCmd *cmd,
               virshTraceEachAsk ask,
               virshTraceEachHandle handle,
               void *opaque,
               bool *failed)
{
    virDomainPtr *domains = NULL;
    bool all = !vshCommandOptBool(cmd, "domain");
    int n = virshTraceDomains(ctl, cmd, &domains);
    int ret = -1;
    size_t i;

    if (n < 0)
        return -1;

    for (i = 0; i < n; i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(JsonObject) info = ask(ctl, domains[i], opaque, &error);

        if (info) {
            if (handle(domains[i], info, opaque) < 0)
                goto cleanup;
            if (vshCommandOptBool(cmd, "json"))
                virshTracePrintJSON(ctl, domains[i], info);
        } else if (!all || !virshTraceIsUnable(error)) {
            virshTraceReport(ctl, virDomainGetName(domains[i]), error);
            *failed = true;
            if (!all)
                goto cleanup;
        }
    }
    ret = 0;

 cleanup:
    virshTraceDomainsFree(domains);
    return ret;
}
