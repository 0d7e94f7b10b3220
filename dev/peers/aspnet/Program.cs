// A server of ASP.NET Core with the hubs and the /control requests that the tests in Tests/SignalR use.
//
// Options: --urls http://HOST:PORT --keepAlive MS --clientTimeout MS --pollTimeout MS --statefulBuffer BYTES --log LEVEL
//
// Streams are channels instead of asynchronous enumerables, and helpers are methods instead of local functions, so that Mono's compiler
// can compile the code, too.

using System;
using System.Collections.Generic;
using System.Text.Json.Serialization;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Connections;
using Microsoft.AspNetCore.SignalR;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

static class Program
{
    static void Main(string[] arguments)
    {
        var builder = WebApplication.CreateSlimBuilder(arguments);
        builder.Logging.SetMinimumLevel(builder.Configuration.GetValue("log", LogLevel.Warning));
        AddServices(builder.Services, builder.Configuration);
        var app = builder.Build();
        var traffic = app.Services.GetRequiredService<Traffic>();
        var tokens = app.Services.GetRequiredService<Tokens>();
        app.Use((HttpContext context, RequestDelegate next) => traffic.Handle(context, next));
        app.Use((HttpContext context, RequestDelegate next) => tokens.Handle(context, next));
        MapHubs(app);
        MapNegotiations(app);
        MapControl(app);
        app.Run();
    }

    static void AddServices(IServiceCollection services, IConfiguration settings)
    {
        services.AddSingleton<Connections>().AddSingleton<StreamCounts>().AddSingleton<Tokens>().AddSingleton<Traffic>();
        var signalR = services.AddSignalR(options =>
        {
            options.EnableDetailedErrors = true;
            options.MaximumReceiveMessageSize = null;
            // Methods may wait for results of the client, and calls that the client has given up continue.
            options.MaximumParallelInvocationsPerClient = 64;
            options.KeepAliveInterval = TimeSpan.FromMilliseconds(settings.GetValue("keepAlive", 15000));
            options.ClientTimeoutInterval = TimeSpan.FromMilliseconds(settings.GetValue("clientTimeout", 30000));
            options.StatefulReconnectBufferSize = settings.GetValue("statefulBuffer", 100000);
        });
        signalR.AddJsonProtocol(options => options.PayloadSerializerOptions.Converters.Add(new JsonStringEnumConverter()));
        signalR.AddMessagePackProtocol();
        signalR.AddHubOptions<QuietHub>(options => options.KeepAliveInterval = TimeSpan.FromDays(1));
        signalR.AddHubOptions<StrictHub>(options =>
        {
            options.SupportedProtocols = new List<string> { "json" };
            options.EnableDetailedErrors = false;
            options.MaximumReceiveMessageSize = 1024;
            options.KeepAliveInterval = TimeSpan.FromMilliseconds(500);
            options.ClientTimeoutInterval = TimeSpan.FromSeconds(2);
        });
    }

    static void MapHubs(WebApplication app)
    {
        MapHub<TestHub>(app, "/test", HttpTransports.All);
        MapHub<TestHub>(app, "/ws", HttpTransportType.WebSockets);
        MapHub<TestHub>(app, "/sse", HttpTransportType.ServerSentEvents);
        MapHub<TestHub>(app, "/lp", HttpTransportType.LongPolling);
        MapHub<TestHub>(app, "/stateful", HttpTransportType.WebSockets, options => options.AllowStatefulReconnects = true);
        MapHub<TestHub>(app, "/auth", HttpTransports.All, options => options.CloseOnAuthenticationExpiration = true);
        MapHub<QuietHub>(app, "/quiet", HttpTransports.All);
        MapHub<StrictHub>(app, "/strict", HttpTransports.All);
    }

    static void MapHub<T>(
        WebApplication app, string path, HttpTransportType transports, Action<HttpConnectionDispatcherOptions> configure = null
    ) where T : Hub
    {
        app.MapHub<T>(path, options =>
        {
            options.Transports = transports;
            options.LongPolling.PollTimeout = TimeSpan.FromMilliseconds(app.Configuration.GetValue("pollTimeout", 90000));
            configure?.Invoke(options);
        });
    }

    // Negotiations that lead to another path, and some that can't succeed.
    static void MapNegotiations(WebApplication app)
    {
        MapNegotiation(app, "/redirect", request => Redirect(request, "/auth", "token-redirected"));
        MapNegotiation(app, "/redirect-twice", request => Redirect(request, "/redirect", "token-once"));
        MapNegotiation(app, "/redirect-loop", request => Redirect(request, "/redirect-loop", null));
        MapNegotiation(app, "/error", request => new { error = "The hub says no." });
        MapNegotiation(app, "/none", request => Offer());
        MapNegotiation(app, "/future", request => Offer(new { transport = "WebTransport", transferFormats = new[] { "Binary" } }));
        // ASP.NET SignalR, the predecessor, has names in upper case. Those of a dictionary remain unchanged.
        MapNegotiation(app, "/classic", request => new Dictionary<string, object>
        {
            ["Url"] = "/signalr", ["ConnectionToken"] = "token", ["ConnectionId"] = "id", ["ProtocolVersion"] = "1.5",
        });
        app.MapPost("/garbage/negotiate", context =>
        {
            context.Response.ContentType = "text/html";
            return context.Response.WriteAsync("<html><body>A web page</body></html>");
        });
    }

    static void MapNegotiation(WebApplication app, string path, Func<HttpRequest, object> response) =>
        app.MapPost(path + "/negotiate", Respond(response));

    static object Redirect(HttpRequest request, string path, string token) =>
        new { url = $"{request.Scheme}://{request.Host}{path}", accessToken = token };

    static object Offer(params object[] transports) =>
        new { negotiateVersion = 1, connectionId = "id", connectionToken = "token", availableTransports = transports };

    // Requests with which a test observes the server, and causes faults.
    static void MapControl(WebApplication app)
    {
        var connections = app.Services.GetRequiredService<Connections>();
        var streams = app.Services.GetRequiredService<StreamCounts>();
        var tokens = app.Services.GetRequiredService<Tokens>();
        var traffic = app.Services.GetRequiredService<Traffic>();
        app.MapGet("/control/connections", Respond(request => new { live = connections.Live }));
        app.MapGet("/control/streams", Respond(request => streams.Counts));
        app.MapGet("/control/requests", Respond(request => traffic.Requests(request.Query["clear"] == "true")));
        app.MapPost("/control/abort", Respond(request => new { aborted = connections.Abort(request.Query["id"]) }));
        app.MapPost("/control/cut", Respond(request => new { cut = traffic.Cut() }));
        app.MapPost(
            "/control/refuse",
            Respond(request => new { refusing = traffic.Refuse(Number(request, "times"), Number(request, "status")) }));
        app.MapPost("/control/delay", Respond(request => new { ms = traffic.Delay = Number(request, "ms") }));
        app.MapPost("/control/revoke", Respond(request => new { revoked = tokens.Revoke(request.Query["token"]) }));
        app.MapPost("/control/shutdown", Respond(request =>
        {
            app.Lifetime.StopApplication();
            return new { stopping = true };
        }));
        app.MapPost("/control/broadcast", async context =>
        {
            var times = Number(context.Request, "times");
            for (var number = 0; number < times; number++)
            {
                foreach (var clients in Clients(app.Services)) await clients.SendAsync(context.Request.Query["method"].ToString());
            }
            await context.Response.WriteAsJsonAsync(new { sent = times });
        });
    }

    // The clients of all hubs.
    static IClientProxy[] Clients(IServiceProvider services) => new[]
    {
        services.GetRequiredService<IHubContext<TestHub>>().Clients.All,
        services.GetRequiredService<IHubContext<QuietHub>>().Clients.All,
        services.GetRequiredService<IHubContext<StrictHub>>().Clients.All,
    };

    static RequestDelegate Respond(Func<HttpRequest, object> response) =>
        context => context.Response.WriteAsJsonAsync(response(context.Request));

    static int Number(HttpRequest request, string name) => int.Parse(request.Query[name].ToString());
}
